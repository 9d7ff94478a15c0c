"""A text that the target has read, as a drafter reads it at every place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.records import Integers


@dataclass(frozen=True, eq=False)
class ReadText:
    """Prompt and text as the target read them: token_ids (all,) int32, features (all, taps × hidden size). Anchors are
    the text's positions from ``start`` on, ``every`` so many."""

    token_ids: Integers
    features: Tensor
    start: int
    every: int = 1

    @property
    def anchors(self) -> Integers:
        """The anchors' positions, (anchors,) int32."""
        return np.arange(self.start, len(self.token_ids), self.every, dtype=np.int32)


def read_text(prompt_ids: Sequence[int], token_ids: Sequence[int], features: Sequence[Tensor]) -> ReadText:
    """The features that ``replay.reread`` returns in pieces, as one text."""
    ids = np.asarray([*prompt_ids, *token_ids], np.int32)
    return ReadText(ids, torch.cat(list(features)), len(prompt_ids))
