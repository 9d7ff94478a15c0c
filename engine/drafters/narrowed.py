"""A drafter that reads only some of the target's taps, where other drafters of the rig need more."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.decoding.plan import BatchDrafter, Drafter
from engine.records import Integers, Lattice


class NarrowedDrafter:
    """Selects the feature columns (n,) int64 that the drafter inside was trained on, in its order."""

    def __init__(self, inside: Drafter, columns: Tensor) -> None:
        self.inside, self.columns = inside, columns

    def begin(self, rows: int) -> None:
        self.inside.begin(rows)

    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``plan.Drafter``. features (tokens, all taps × hidden size)."""
        self.inside.observe(token_ids, features.index_select(-1, self.columns))

    def draft(self, root: int, width: int) -> Lattice:
        return self.inside.draft(root, width)

    def fork(self) -> NarrowedDrafter:
        return NarrowedDrafter(self.inside.fork(), self.columns)

    @property
    def weights(self) -> object:
        return self.inside.weights if isinstance(self.inside, BatchDrafter) else self.inside

    def draft_batch(self, forks: Sequence[NarrowedDrafter], roots: Sequence[int], widths: Sequence[int]
                       ) -> list[Lattice]:
        """See ``plan.BatchDrafter``; one draft after another where the drafter inside cannot draft jointly."""
        inside = [fork.inside for fork in forks]
        if isinstance(self.inside, BatchDrafter):
            return self.inside.draft_batch(inside, roots, widths)
        return [drafter.draft(*arguments) for drafter, *arguments in zip(inside, roots, widths, strict=True)]

    def release(self) -> None:
        self.inside.release()
