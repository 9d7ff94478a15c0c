"""Compare a finished run with plain decoding: repeat it interleaved with plain decoding while the queue is empty, and
try a few other settings if it was slower. A new run cancels the comparison."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from time import monotonic
from typing import Any

from engine.decoding.budget_policy import AUTO, FIXED
from engine.errors import CancellationError, RequestError
from engine.lab.against_plain import (
    MIN_TURNS,
    SETTLING_TURNS,
    InterleavedTiming,
    speed_beside_plain,
)
from engine.lab.redraft import modelled_speed
from engine.lab.settings import BASELINE
from engine.lab.speed import SLOWER
from engine.machine.threads import BUSY_THRESHOLD
from engine.records import PromptRequest
from engine.requests.admission import Admission
from engine.trace import Trace, committed_ids, encode_record, shared_rounds
from explorer.browser_calls import Call, browser_call
from explorer.claims import OtherSetting, RunComparison, State
from explorer.jobs import Job, Jobs
from explorer.rig import CurrentRig, Instruments
from explorer.runs import Runs

AGAIN_SECONDS, OTHER_SECONDS = 4.0, 2.0  # at most, for a short text once more, and for one other setting
MAX_TOKENS = 64  # of another setting
VIEW_SECONDS = 0.4  # between two updates
SMALLER = (16, 4)  # node budgets that are tried if a larger one did not pay


class Comparison:
    """The functions that the browser may call once a run has ended. What was found is remembered with the run."""

    def __init__(self, rig: CurrentRig, trace_of: Callable[[str], Trace], admission: Admission, runs: Runs) -> None:
        self._rig = rig
        self._trace_of = trace_of
        self._admission = admission
        self._runs = runs
        self._jobs = Jobs(admission)

    def functions(self) -> list[Call]:
        return [browser_call("compare", self.compare), browser_call("compared", self._jobs.look)]

    def compare(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Begin to compare {"run"} with plain decoding: {"job"}. RequestError if another run waits, or if this
        one was made on another rig or machine. The job's result is a ``PlainComparison``, as far as it is."""
        run = str(wanted.get("run"))
        trace = self._trace_of(run)
        self._refuse(run, trace)
        return {"job": self._jobs.start(lambda job: self._measure(run, trace, job))}

    def _refuse(self, run: str, trace: Trace) -> None:
        source, header, shared = self._rig.source, trace.header, shared_rounds(trace)
        if shared:
            raise RequestError(f"The run shared {shared} of its {len(trace.entries)} rounds with other runs, so its "
                               "speed is not compared with plain decoding, which is measured alone; run it again when "
                               "no other run is in progress.")
        if BASELINE not in source.methods:
            raise RequestError(f"The {source.name} does not run plain decoding, so it was not measured.")
        if (header.rig, header.hardware) != (source.name, source.hardware):
            raise RequestError(f"The run was made by the {header.rig} on {header.hardware}, which does not answer now.")
        if self._admission.waiting(besides=run):  # a run that was stopped may still leave its place
            raise RequestError("Another run or a measurement began before this run could be timed beside plain "
                               "decoding.")

    def _measure(self, run: str, trace: Trace, job: Job) -> dict[str, Any]:
        instruments, ask, interrupt = self._rig.instruments, ask_of(trace), self._interrupt(job)
        instruments.missing_processors()
        comparison = self._beside_plain(run, RunComparison(trace, (), (), (), {}, "measuring"), ask, job)
        try:
            until = monotonic() + AGAIN_SECONDS
            while 0 < len(comparison.turns) < MIN_TURNS + SETTLING_TURNS and monotonic() < until:
                # a text of few turns is timed again until they are enough for a range
                comparison = replace(comparison, turns=(*comparison.turns, *self._time(ask, until, job).pairs))
        except CancellationError:
            comparison = replace(comparison, state="cut")
        comparison = replace(comparison, busy=instruments.missing_processors() >= BUSY_THRESHOLD)
        job.result = view = self._note(run, comparison)
        with suppress(CancellationError):
            interrupt()
            if view["speed"]["standing"] == SLOWER:
                job.result = view = self._note(run, comparison, self._others(trace, job))
            # for the panel Budget
            instruments.measure_cost(trace, interrupt, again=self._misfits(trace, view["speed"]))
        return view

    def _misfits(self, trace: Trace, speed: Mapping[str, Any]) -> bool:
        """Whether the known cost curve, measured at another time, does not fit the run beside plain decoding."""
        cost = self._rig.instruments.known_cost(trace)
        own = modelled_speed(trace, cost) if cost else None
        return bool(cost and (cost.disorder or (own and own.curve_problem(speed["ratio"]))))

    def _beside_plain(self, run: str, comparison: RunComparison, ask: PromptRequest, job: Job) -> RunComparison:
        """Time the request interleaved with plain decoding until both texts end or it is interrupted."""
        with self._interleaved(ask, self._interrupt(job)) as taking:
            seen = monotonic()
            state: State = "measuring"
            while state == "measuring":
                try:
                    state = "measuring" if taking.advance() else "ended"
                except CancellationError:
                    if not taking.plain:
                        raise
                    state = "cut"
                if state != "measuring" or monotonic() - seen > VIEW_SECONDS:
                    comparison, seen = replace(self._update(comparison, taking), state=state), monotonic()
                    job.result = self._note(run, comparison)
        return comparison

    def _note(self, run: str, comparison: RunComparison, others: Sequence[OtherSetting] = ()) -> dict[str, Any]:
        record = replace(comparison.record(self._rig.instruments.precision), others=tuple(others))
        view: dict[str, Any] = encode_record(record)
        if kept := self._runs.get(run):
            kept.note(record)
        return view

    def _interrupt(self, job: Job) -> Callable[[], None]:
        """Return a function that raises CancellationError when the job is stopped or a run is waiting."""
        def interrupt() -> None:
            if job.stop.is_set() or self._admission.waiting() > 1:
                raise CancellationError("Another run came.")
        return interrupt

    @contextmanager
    def _interleaved(self, ask: PromptRequest, interrupt: Callable[[], None], other: Instruments | None = None
                  ) -> Iterator[InterleavedTiming]:
        """The ask, on another rig if one is given, in turns with plain decoding on this one."""
        with ExitStack() as opened:
            asks = [plain_of(ask)] if other else [plain_of(ask), ask]
            plain, *turns = opened.enter_context(self._rig.instruments.interleaved(asks, interrupt))
            (rounds,) = opened.enter_context(other.interleaved([ask], interrupt)) if other else turns
            yield InterleavedTiming(rounds, plain)

    def _time(self, ask: PromptRequest, until: float, job: Job, other: Instruments | None = None) -> InterleavedTiming:
        with self._interleaved(ask, self._interrupt(job), other) as taking:
            while monotonic() < until and taking.advance():
                pass
        return taking

    def _update(self, comparison: RunComparison, taking: InterleavedTiming) -> RunComparison:
        tokens = {*committed_ids(taking.plain), *(round_.acceptance.bonus for round_ in taking.plain[-1:])}
        pieces = self._rig.instruments.laboratory.pieces(sorted(tokens))
        return replace(comparison, rounds=tuple(taking.rounds), plain=tuple(taking.plain), pieces=pieces,
                       turns=taking.pairs)

    def _others(self, trace: Trace, job: Job) -> list[OtherSetting]:
        """Settings that may be faster than the run was, measured in turns with plain decoding too."""
        ask = replace(ask_of(trace), max_tokens=MAX_TOKENS)
        tried: list[tuple[PromptRequest, Instruments | None]] = [(other, None) for other in others(ask)]
        if twin := self._rig.instruments.twin(self._interrupt(job)):
            same = ask if ask.pace == FIXED else replace(ask, pace=FIXED, budget=min(ask.budget, SMALLER[0]))
            tried.append((same, twin))
        settings = [_other_setting(other, rig, self._time(other, monotonic() + OTHER_SECONDS, job, rig))
                    for other, rig in tried]
        return sorted(settings, key=lambda setting: -setting.ratio)


def _other_setting(ask: PromptRequest, rig: Instruments | None, taking: InterleavedTiming) -> OtherSetting:
    speed = speed_beside_plain(taking.pairs, taking.rounds)
    return OtherSetting(
        ask.method, ask.budget, ask.pace, rig.laboratory.conditions.dtype if rig else "", len(taking.rounds),
        sum(len(round_.tree) > 1 for round_ in taking.rounds), speed.ratio, speed.times)


def plain_of(ask: PromptRequest) -> PromptRequest:
    """The same ask for plain decoding."""
    return replace(ask, method=BASELINE, budget=0, drafters=(), pace=FIXED)


def ask_of(trace: Trace) -> PromptRequest:
    """Return the run's request; for an interrupted run, with max_tokens set to the tokens it wrote."""
    header, written = trace.header, len(committed_ids(trace.rounds))
    ask = PromptRequest(header.prompt, drafters=header.drafters, turns=header.turns, thinking=header.thinking,
                        forced=header.request.prompt_ids[len(header.request.prompt_ids) - header.forced:],
                        **header.request.shared())
    return ask if trace.end.reason in ("stop", "context") else replace(ask, max_tokens=written)


def others(ask: PromptRequest) -> list[PromptRequest]:
    """Settings of the same method that may be faster than plain decoding if this one was not: auto, and smaller
    budgets."""
    smaller = [replace(ask, budget=budget, pace=FIXED) for budget in SMALLER if budget < ask.budget]
    return [replace(ask, pace=AUTO), *smaller] if ask.pace == FIXED else smaller
