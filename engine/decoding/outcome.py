"""The totals of a finished run: text, τ, time per stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from engine.records import STAGES, Round


def mean_length(tokens: int, rounds: int) -> float:
    """τ, the mean acceptance length: tokens committed per round, the root included (paper 001, section 9); 0 without a
    round."""
    return tokens / rounds if rounds else 0.0


@dataclass(frozen=True)
class Outcome:
    """The totals of a run. ``lengths`` are tokens committed per round, the root included; ``seconds`` is engine time
    without the prefill; ``bonus`` is the last bonus token, which is not part of the text."""

    token_ids: tuple[int, ...]
    lengths: tuple[int, ...]
    seconds: float
    stage_seconds: dict[str, float]
    bonus: int


def outcome(rounds: Iterator[Round]) -> Outcome:
    """Run to the end, and return its totals."""
    token_ids: list[int] = []
    lengths: list[int] = []
    stages = dict.fromkeys(STAGES, 0.0)
    seconds, bonus = 0.0, -1
    began = perf_counter()
    for round_ in rounds:
        now = perf_counter()
        # the first step includes the prefill, which does not count
        seconds += now - began if lengths else sum(round_.seconds.values())
        token_ids += round_.committed.tolist()
        lengths.append(len(round_.acceptance.keep))
        bonus = round_.acceptance.bonus
        for stage, spent in round_.seconds.items():
            stages[stage] += spent
        began = perf_counter()
    return Outcome(tuple(token_ids), tuple(lengths), seconds, stages, bonus)
