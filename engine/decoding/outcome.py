"""The totals of a finished run: text, τ, time per stage. Used by the command line, the checks and the benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from engine.records import STAGES, Round


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
    for made in rounds:
        now = perf_counter()
        # the first step includes the prefill, which does not count
        seconds += now - began if lengths else sum(made.seconds.values())
        token_ids += made.committed.tolist()
        lengths.append(len(made.acceptance.keep))
        bonus = made.acceptance.bonus
        for stage, spent in made.seconds.items():
            stages[stage] += spent
        began = perf_counter()
    return Outcome(tuple(token_ids), tuple(lengths), seconds, stages, bonus)
