"""Records the published EAGLE-2 and EAGLE-3 loop (github.com/SafeAILab/EAGLE, ``EaModel.eagenerate``).

Add two lines, one after ``evaluate_posterior`` and one after the loop::

    rounds = EagleRounds(recorder)
    for idx in range(max_length):
        ...
        best_candidate, accept_length, sample_p = evaluate_posterior(logits, candidates, logits_processor)
        rounds.verified(locals())
        input_ids, draft_tokens, ... = update_inference_inputs(...)
    rounds.ended()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.recorder import Recorder


class EagleRounds:
    """Records the loop's rounds. The loop draws the bonus token after it has verified, as the root of its next tree, so
    each round is written one round later. The last round's bonus token is the likeliest of ``sample_p``, which greedy
    decoding takes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._round: dict[str, Any] = {}
        self._last_bonus = 0

    def verified(self, names: Mapping[str, Any]) -> None:
        """Take note of a verified tree from the loop's local variables: ``retrieve_indices`` (paths, depth + 1) are the
        rows of each path, padded with -1; ``draft_tokens`` (1, n) end with one token of padding."""
        paths = np.asarray(names["retrieve_indices"].cpu())
        tokens = np.asarray(names["draft_tokens"].cpu())[0, :paths.max() + 1]
        choices = np.asarray(names["logits"].argmax(-1).cpu())
        parents, choice = np.full(len(tokens), -1, np.int64), np.full(len(tokens), -1, np.int64)
        choice[paths[paths >= 0]] = choices[paths >= 0]
        for above, below in zip(paths[:, :-1].T, paths[:, 1:].T):  # noqa: B905 (runs beside older Pythons)
            parents[below[below >= 0]] = above[below >= 0]
        self._write(int(tokens[0]))
        keep = paths[int(names["best_candidate"]), :int(names["accept_length"]) + 1]
        self._round = {"tokens": tokens, "parents": parents, "keep": keep, "choice": choice,
                       "start": names["input_ids"].shape[1]}
        self._last_bonus = int(names["sample_p"].argmax())

    def ended(self) -> None:
        """Write the last round, once the text has ended."""
        self._write(self._last_bonus)

    def _write(self, bonus: int) -> None:
        if self._round:
            self._recorder.round(bonus=bonus, **self._round)
            self._round = {}
