"""A drafter that reads some of the target's taps where another drafter of the rig reads others."""

from __future__ import annotations

from torch import Tensor

from engine.decode import Drafter
from engine.records import Integers, Lattice


class NarrowedDrafter:
    """``columns`` (n,) int64 are the feature columns that the drafter inside was trained on, in its order."""

    def __init__(self, inside: Drafter, columns: Tensor) -> None:
        self.inside, self.columns = inside, columns

    def begin(self, rows: int) -> None:
        """See ``decode.Drafter``."""
        self.inside.begin(rows)

    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``decode.Drafter``. features (tokens, all taps × hidden size)."""
        self.inside.observe(token_ids, features.index_select(-1, self.columns))

    def draft(self, root: int, width: int) -> Lattice:
        """See ``decode.Drafter``."""
        return self.inside.draft(root, width)

    def release(self) -> None:
        """See ``decode.Drafter``."""
        self.inside.release()
