"""Compare a finished run with plain decoding: repeat it interleaved with plain decoding while the queue is empty, and
try a few other settings if it was slower. A new run cancels the comparison."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from time import monotonic, sleep
from typing import Any

from engine.decoding.budget_policy import AUTO, FIXED
from engine.errors import CancellationError, RequestError
from engine.lab.against_plain import MIN_TURNS, SETTLING_TURNS, InterleavedTiming, speed_beside_plain
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

REPEAT_SECONDS = 4.0  # a text of few turns is timed again for at most this long
CANDIDATE_SECONDS, CANDIDATE_TOKENS = 2.0, 64  # limits for timing each candidate setting
UPDATE_SECONDS = 0.4  # between two results for the page
QUIET_PROCESSORS = 0.1  # a machine with fewer missing processors is quiet
MAX_QUIET_WAIT_SECONDS = 3.0  # for a quiet machine: the page still draws the end of the run
PROCESSOR_SAMPLE_SECONDS = 0.2  # the time over which missing processors are counted
MAX_TIMINGS = 3  # of a run whose speed-up is withheld because the machine was busy
MAX_RETRY_SECONDS = 12.0  # after the first timing began, none is repeated
SMALLER_BUDGETS = (16, 4)  # that are tried if a larger one did not pay; a predicted one takes the first's place


class Comparison:
    """Compares ended runs for the browser; each result is stored with its run. ``fastest_budget`` predicts a run's
    (0 if unknown)."""

    def __init__(self, rig: CurrentRig, trace_of: Callable[[str], Trace], admission: Admission, runs: Runs,
                 fastest_budget: Callable[[str], int] = lambda run: 0) -> None:
        self._rig = rig
        self._trace_of = trace_of
        self._admission = admission
        self._runs = runs
        self._fastest_budget = fastest_budget
        self._jobs = Jobs(admission)

    def functions(self) -> list[Call]:
        return [browser_call("compare", self.compare), browser_call("compared", self._jobs.poll)]

    def compare(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """Start a job that compares {"run"} with plain decoding; return {"job"}. Its result, a ``PlainComparison``,
        grows. Raises RequestError if the run cannot be compared, or if another one waits."""
        run = str(query.get("run"))
        self._check_comparable(run, self._trace_of(run))
        # read anew once the machine is free: a stopped run may add a round until then
        return {"job": self._jobs.start(lambda job: self._measure(run, self._trace_of(run), job))}

    def _check_comparable(self, run: str, trace: Trace) -> None:
        source, header, shared = self._rig.source, trace.header, shared_rounds(trace)
        if shared:
            raise RequestError(f"The run shared {shared} of its {len(trace.entries)} rounds with other runs, so its "
                               "speed is not compared with plain decoding, which is measured alone; run it again when "
                               "no other run is in progress.")
        if BASELINE not in source.methods:
            raise RequestError(f"The {source.name} does not run plain decoding, so it was not measured.")
        if (header.rig, header.hardware) != (source.name, source.hardware):
            raise RequestError(f"The run was made by the {header.rig} on {header.hardware}, which does not answer now.")
        if self._admission.count_entries(excluding=run):  # a run that was stopped may still leave its place
            raise RequestError("Another run or a measurement began before this run could be timed beside plain "
                               "decoding.")

    def _measure(self, run: str, trace: Trace, job: Job) -> dict[str, Any]:
        instruments, interrupt = self._rig.instruments, self._interrupt(job)
        until = monotonic() + MAX_RETRY_SECONDS
        for attempt in range(MAX_TIMINGS):
            comparison = self._timed(run, trace, job, "once more, " if attempt else "")
            if comparison.state != "ended" or not comparison.record().speed.again or monotonic() > until:
                break
        job.result = view = self._note(run, comparison)
        with suppress(CancellationError):
            interrupt()
            if view["speed"]["again"]:  # costs would be those of a busy machine, too
                return view
            job.message = "pass costs"  # the page's panel Budget predicts from it
            instruments.measure_cost(trace, interrupt, again=self._cost_is_stale(trace, view["speed"]))
            if view["speed"]["outcome"] == SLOWER:
                job.result = view = self._note(run, comparison, self._measure_others(run, trace, job))
        return view

    def _timed(self, run: str, trace: Trace, job: Job, lead: str) -> RunComparison:
        """Time a run beside plain decoding as soon as other programs are quiet, or after ``MAX_QUIET_WAIT_SECONDS``."""
        instruments, request = self._rig.instruments, request_of(trace)
        self._wait_for_quiet(job)
        instruments.missing_processors()
        comparison = self._beside_plain(run, RunComparison(trace, (), (), (), {}, "measuring"), request, job, lead)
        try:
            until = monotonic() + REPEAT_SECONDS
            while 0 < len(comparison.turns) < MIN_TURNS + SETTLING_TURNS and monotonic() < until:
                comparison = replace(comparison, turns=(*comparison.turns, *self._time(request, until, job).pairs))
        except CancellationError:
            comparison = replace(comparison, state="interrupted")
        return replace(comparison, busy=instruments.missing_processors() >= BUSY_THRESHOLD)

    def _wait_for_quiet(self, job: Job) -> None:
        instruments, interrupt = self._rig.instruments, self._interrupt(job)
        until = monotonic() + MAX_QUIET_WAIT_SECONDS
        job.message = "waiting for other programs"
        instruments.missing_processors()
        sleep(PROCESSOR_SAMPLE_SECONDS)
        while instruments.missing_processors() > QUIET_PROCESSORS and monotonic() < until:
            interrupt()
            sleep(PROCESSOR_SAMPLE_SECONDS)

    def _cost_is_stale(self, trace: Trace, speed: Mapping[str, Any]) -> bool:
        """Return whether the known cost curve contradicts the measured speed-up."""
        cost = self._rig.instruments.known_cost(trace)
        modelled = modelled_speed(trace, cost) if cost else None
        return bool(cost and (cost.unusable_reason or (modelled and modelled.curve_problem(speed["ratio"]))))

    def _beside_plain(self, run: str, comparison: RunComparison, request: PromptRequest, job: Job,
                      lead: str) -> RunComparison:
        """Time the request interleaved with plain decoding until both texts end or it is interrupted. ``lead``: before
        the message of its progress."""
        tokens = max(1, len(committed_ids(comparison.trace.rounds)))
        with self._interleaved(request, self._interrupt(job)) as timing:
            updated_at = monotonic()
            state: State = "measuring"
            while state == "measuring":
                try:
                    state = "measuring" if timing.advance() else "ended"
                except CancellationError:
                    if not timing.plain:
                        raise
                    state = "interrupted"
                job.message = f"{lead}{min(100, 100 * len(timing.plain) // tokens)} %"
                if state != "measuring" or monotonic() - updated_at > UPDATE_SECONDS:
                    comparison, updated_at = replace(self._update(comparison, timing), state=state), monotonic()
                    if state == "measuring":  # the end is reported once short texts have been repeated
                        job.result = self._note(run, comparison)
        return comparison

    def _note(self, run: str, comparison: RunComparison, others: Sequence[OtherSetting] = ()) -> dict[str, Any]:
        record = replace(comparison.record(self._rig.instruments.precision), others=tuple(others))
        view: dict[str, Any] = encode_record(record)
        if run_log := self._runs.get(run):
            run_log.set_comparison(record)
        return view

    def _interrupt(self, job: Job) -> Callable[[], None]:
        """Return a function that raises CancellationError when the job is stopped or a run is waiting."""
        def interrupt() -> None:
            if job.stop.is_set() or self._admission.count_entries() > 1:
                raise CancellationError("Another run came.")
        return interrupt

    @contextmanager
    def _interleaved(self, request: PromptRequest, interrupt: Callable[[], None],
                     other: Instruments | None = None) -> Iterator[InterleavedTiming]:
        """Interleave the request, on the ``other`` rig if there is one, with plain decoding on this rig."""
        with ExitStack() as opened:
            requests = [plain_of(request)] if other else [plain_of(request), request]
            plain, *turns = opened.enter_context(self._rig.instruments.interleaved(requests, interrupt))
            (rounds,) = opened.enter_context(other.interleaved([request], interrupt)) if other else turns
            yield InterleavedTiming(rounds, plain)

    def _time(self, request: PromptRequest, until: float, job: Job,
              other: Instruments | None = None) -> InterleavedTiming:
        with self._interleaved(request, self._interrupt(job), other) as timing:
            while monotonic() < until and timing.advance():
                pass
        return timing

    def _update(self, comparison: RunComparison, timing: InterleavedTiming) -> RunComparison:
        tokens = {*committed_ids(timing.plain), *(round_.acceptance.bonus for round_ in timing.plain[-1:])}
        pieces = self._rig.instruments.laboratory.pieces(sorted(tokens))
        return replace(comparison, rounds=tuple(timing.rounds), plain=tuple(timing.plain), pieces=pieces,
                       turns=timing.pairs)

    def _measure_others(self, run: str, trace: Trace, job: Job) -> list[OtherSetting]:
        """Time settings that may be faster than the run was; return them, the fastest first."""
        job.message = "other settings"
        request = replace(request_of(trace), max_tokens=CANDIDATE_TOKENS)
        tried: list[tuple[PromptRequest, Instruments | None]] = [
            (other, None) for other in faster_candidates(request, self._fastest_budget(run))]
        if twin := self._rig.instruments.twin(self._interrupt(job)):
            fixed = replace(request, pace=FIXED, budget=min(request.budget, SMALLER_BUDGETS[0]))
            fixed_request = request if request.pace == FIXED else fixed
            tried.append((fixed_request, twin))
        settings = [self._other_setting(candidate, rig, job) for candidate, rig in tried]
        return sorted(settings, key=lambda setting: -setting.ratio)

    def _other_setting(self, request: PromptRequest, rig: Instruments | None, job: Job) -> OtherSetting:
        until = monotonic() + CANDIDATE_SECONDS
        timing = self._time(request, until, job, rig)
        turns = timing.pairs
        while 0 < len(turns) < MIN_TURNS + SETTLING_TURNS and monotonic() < until:  # a short text
            turns = [*turns, *self._time(request, until, job, rig).pairs]
        speed = speed_beside_plain(turns, timing.rounds)
        return OtherSetting(
            request.method, request.budget, request.pace, rig.laboratory.conditions.dtype if rig else "",
            len(timing.rounds), sum(len(round_.tree) > 1 for round_ in timing.rounds), speed.ratio, speed.times,
            speed.range)


def plain_of(request: PromptRequest) -> PromptRequest:
    """Return the same request for plain decoding."""
    return replace(request, method=BASELINE, budget=0, drafters=(), pace=FIXED)


def request_of(trace: Trace) -> PromptRequest:
    """Return the run's request; for an interrupted run, with max_tokens set to the tokens it wrote."""
    header, written = trace.header, len(committed_ids(trace.rounds))
    request = PromptRequest(header.prompt, drafters=header.drafters, turns=header.turns, thinking=header.thinking,
                        forced=header.request.prompt_ids[len(header.request.prompt_ids) - header.forced:],
                        **header.request.shared())
    return request if trace.end.reason in ("stop", "context") else replace(request, max_tokens=written)


def faster_candidates(request: PromptRequest, predicted: int = 0) -> list[PromptRequest]:
    """Return settings of the same method that may beat plain decoding if this one did not: auto, the budget that is
    predicted to be the fastest, and smaller budgets."""
    first, *others = SMALLER_BUDGETS
    smaller = [replace(request, budget=budget, pace=FIXED) for budget in dict.fromkeys(
        [predicted if 0 < predicted < request.budget else first, *others]) if budget < request.budget]
    return [replace(request, pace=AUTO), *smaller] if request.pace == FIXED else smaller
