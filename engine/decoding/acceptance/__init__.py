"""Acceptance rules: from the target's verification of a tree, the rows to keep and the bonus token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from engine.records import Acceptance, DraftTree, Floats, Integers, Verification
from engine.registry import Table


class Residual(Protocol):
    """The target's processed distributions of the pass just made, still on its device; see
    ``Verification.processed``. At temperature 0 a row's distribution p has the whole mass on its argmax."""

    def redraw(self, row: int, tokens: Integers, masses: Floats, draw: float) -> int:
        """A token from max(p − m, 0), renormalised, at ``row``; m is ``masses`` at ``tokens`` and 0 elsewhere.

        ``draw`` is uniform in [0, 1). Where nothing is left, the draw is from p itself.
        """


AcceptanceRule = Callable[[DraftTree, Verification, Residual, np.random.Generator], Acceptance]

ACCEPTANCE_RULES: Table[AcceptanceRule] = Table("engine.decoding.acceptance", "walk", "sequential", "ratio")

# Rules that keep only the target's own choices. Above temperature 0 they write exactly plain decoding's text with the
# same seed; a lossless rule with draws of its own writes another text of the same distribution.
KEEPS_THE_TARGETS_CHOICES = frozenset({"walk"})
