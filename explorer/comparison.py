"""What a run's speed is compared with: plain decoding of the same prompt, measured briefly after the run while the
queue is empty; and, where the run was slower than that, a few other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median, quantiles
from time import monotonic
from typing import Any

from engine.decoding.budget_policy import AUTO, FIXED
from engine.errors import RequestError
from engine.lab.settings import BASELINE
from engine.records import Ask
from engine.trace import Entry, Header, Trace, shared_rounds
from explorer.browser_calls import Call, browser_call
from explorer.lab.jobs import Job, Jobs
from explorer.lessons import tokens_per_second
from explorer.run_queue import RunQueue
from explorer.source import Source
from explorer.sources.answering import AnsweringRig
from explorer.view import View

PLAIN_SECONDS, OTHER_SECONDS = 2.5, 1.5  # at most, for one measurement
MOST_TOKENS = 64
LEAST_ROUNDS = 4  # fewer say nothing
WARM_ROUNDS = 2  # are left out: caches and clocks settle
UNSTEADY = 0.3  # of the median round: an interquartile range above it means that other programs used the machine
SMALLER = (16, 4)  # node budgets that are tried where a larger one did not pay


@dataclass(frozen=True)
class TimedRun:
    """Rounds of a brief run: tokens kept, seconds of engine time, and whether a draft was verified, of each."""

    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    drafted: tuple[bool, ...] = ()
    dtype: str = ""

    @property
    def tokens_per_second(self) -> float:
        """Over all its rounds."""
        return sum(self.tokens) / sum(self.seconds)

    @property
    def unsteady(self) -> bool:
        """Whether equal rounds took such different times that other programs must have been running."""
        if len(self.seconds) < LEAST_ROUNDS:
            return False
        low, _, high = quantiles(self.seconds, n=4)
        return (high - low) / median(self.seconds) > UNSTEADY


class Comparison:
    """The functions that the browser may call once a run has ended."""

    def __init__(self, rig: AnsweringRig, trace_of: Callable[[str], Trace], queue: RunQueue) -> None:
        self._rig = rig
        self._trace_of = trace_of
        self._queue = queue
        self._jobs = Jobs(queue)

    def functions(self) -> list[Call]:
        """What the browser calls by name."""
        return [browser_call("compare", self.compare), browser_call("compared", self.compared)]

    def compare(self, wanted: Mapping[str, Any]) -> View:
        """Begin to measure what the run {"run"} is compared with: {"job"}. RequestError where another run waits, or
        where this one was made on another rig or machine."""
        trace = self._trace_of(str(wanted.get("run")))
        self._refuse(trace)
        return {"job": self._jobs.start(lambda job: self._measured(trace, job))}

    def compared(self, wanted: Mapping[str, Any]) -> View:
        """Its progress; see ``Job``. The result: {tokens_per_second, seconds, unsteady, others: [{method, budget, pace,
        dtype, rounds, drafted, tokens_per_second}], the fastest first, dtype empty where it is the run's own, drafted
        the rounds that verified a draft}; None where another run asked for the machine meanwhile."""
        return self._jobs.look(str(wanted.get("job"))).view()

    def _refuse(self, trace: Trace) -> None:
        source, header, shared = self._rig.source, trace.header, shared_rounds(trace)
        if shared:
            raise RequestError(f"The run shared {shared} of its {len(trace.entries)} rounds with other runs, so its "
                               "speed is not compared with plain decoding, which is measured alone; run it again when "
                               "no other run is in progress.")
        if BASELINE not in source.methods:
            raise RequestError(f"The {source.rig} does not run plain decoding, so it was not measured.")
        if (header.rig, header.hardware) != (source.rig, source.hardware):
            raise RequestError(f"The run was made by the {header.rig} on {header.hardware}, which does not answer now.")
        if self._queue.waiting():
            raise RequestError("Somebody else's run or measurement is in progress; plain decoding was not measured.")

    def _measured(self, trace: Trace, job: Job) -> View | None:
        ask = ask_of(trace)
        plain = self._clocked(replace(ask, method=BASELINE, budget=0, drafters=(), pace=FIXED), PLAIN_SECONDS)
        if plain is None:
            return None
        tried = others(ask) if tokens_per_second(trace) < plain.tokens_per_second else []
        found = [(other, clocked) for other in tried if (clocked := self._clocked(other, OTHER_SECONDS))]
        if tried and (twin := self._rig.instruments.twin()):
            same = ask if ask.pace == FIXED else replace(ask, pace=FIXED, budget=min(ask.budget, SMALLER[0]))
            found += [(same, clocked) for clocked in [self._clocked(same, OTHER_SECONDS, twin)] if clocked]
        found.sort(key=lambda each: -each[1].tokens_per_second)
        return {
            "tokens_per_second": plain.tokens_per_second, "seconds": list(accumulate(plain.seconds)),
            "unsteady": plain.unsteady, "others": [
                {"method": other.method, "budget": other.budget, "pace": other.pace,
                 "dtype": "" if clocked.dtype == trace.header.dtype else clocked.dtype, "rounds": len(clocked.tokens),
                 "drafted": sum(clocked.drafted), "tokens_per_second": clocked.tokens_per_second}
                for other, clocked in found]}

    def _clocked(self, ask: Ask, seconds: float, source: Source | None = None) -> TimedRun | None:
        """The rounds of a brief run; None where another run came to wait, or where there were too few rounds."""
        rounds: list[tuple[int, float, bool]] = []
        dtype = ""
        until = monotonic() + seconds
        with closing((source or self._rig.source).run(ask)) as lines:
            for line in lines:
                if isinstance(line, Header):
                    dtype = line.dtype
                if isinstance(line, Entry):
                    made = line.round
                    rounds.append((len(made.acceptance.keep), sum(made.seconds.values()), len(made.tree) > 1))
                if self._queue.waiting() > 1:
                    return None
                if monotonic() > until and len(rounds) >= LEAST_ROUNDS + WARM_ROUNDS:
                    break
        counted = rounds[WARM_ROUNDS:] if len(rounds) >= LEAST_ROUNDS + WARM_ROUNDS else rounds
        if not counted or not sum(spent for _, spent, _ in counted):
            return None
        tokens, seconds_, drafted = zip(*counted, strict=True)
        return TimedRun(tokens, seconds_, drafted, dtype)


def ask_of(trace: Trace) -> Ask:
    """The run's own ask, with max_tokens cut to what a brief measurement writes."""
    header = trace.header
    request = header.request
    return Ask(
        header.prompt, method=request.method, budget=request.budget, max_tokens=min(MOST_TOKENS, request.max_tokens),
        sampling=request.sampling, split=request.split, drafters=header.drafters, pace=request.pace, turns=header.turns)


def others(ask: Ask) -> list[Ask]:
    """Settings of the same method that may be faster than plain decoding where this one was not: auto, and smaller
    budgets."""
    smaller = [replace(ask, budget=budget, pace=FIXED) for budget in SMALLER if budget < ask.budget]
    return [replace(ask, pace=AUTO), *smaller] if ask.pace == FIXED else smaller
