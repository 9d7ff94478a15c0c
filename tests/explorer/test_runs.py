"""Live runs: queued, kept, ended when nobody reads them."""

import tracemalloc

import pytest

from engine.errors import CancellationError, RequestError
from engine.records import PromptRequest
from engine.requests.admission import MAX_PENDING_RUNS, MAX_RUNS_PER_ADDRESS, Admission
from engine.trace import Line, Trace, dumps, estimate_bytes, loads
from explorer.runs import RUN_BYTES, RunLog, Runner, Runs
from tests.explorer.scripted import ENDLESS, ScriptedSource, scripted_trace
from tests.explorer.scripted_rigs import current_rig, wait_for_end
from tests.running import until

LONG = PromptRequest(ENDLESS, method="ddtree", budget=16)


class UnreadRuns:
    """Start runs on one rig, none of which is read."""

    def __init__(self, source: ScriptedSource) -> None:
        self.queue = Admission()
        self._runner = Runner(current_rig(source), Runs(), self.queue)

    def begin(self, ask: PromptRequest = LONG) -> RunLog:
        """Start a run, and wait until it is in the queue."""
        before = self.queue.count_entries()
        run = self._runner.start(ask)
        until(lambda: self.queue.count_entries() > before)
        return run


def test_the_queue_advances_when_a_run_leaves_it() -> None:
    started = UnreadRuns(ScriptedSource(pause_seconds=0.01))
    first, second, third = (started.begin() for _ in range(3))
    until(lambda: {second.state_line["state"], third.state_line["state"]} == {"queued"})
    told = third.state_line["message"]
    second.stop()
    until(lambda: third.state_line["message"] != told)
    first.stop()
    until(lambda: len(third.lines) > 1)
    third.stop()
    assert not wait_for_end(second).lines and wait_for_end(third).lines


def test_remembered_runs_are_bounded_by_bytes() -> None:
    trace = scripted_trace("ddtree")
    lines: list[Line] = [trace.header, *trace.entries, trace.end]
    size = RUN_BYTES + sum(map(estimate_bytes, lines))
    runs = Runs(max_bytes=3 * size)
    for name in "abc":
        runs.store(RunLog.recorded(name, trace))
    runs.add(last := runs.register(RunLog("d")), *lines)
    with pytest.raises(RequestError, match="MiB"):
        runs.add(last, *lines, *lines, *lines)  # refused for its size, so it evicts no other run
    assert [name for name in "abcd" if runs.get(name)] == ["b", "c", "d"]
    with pytest.raises(RequestError, match="'a'"):
        runs.find("a")
    small = Runs(max_bytes=size - 1)
    run = small.register(RunLog("run"))
    with pytest.raises(RequestError, match="MiB"):
        for line in lines:
            small.add(run, line)
    assert small.trace("run").end.reason == "stopped", "its rounds are kept"
    with pytest.raises(RequestError, match="MiB"):
        small.store(RunLog.recorded("whole", trace))
    for number in range(2 * size // RUN_BYTES):
        small.register(RunLog(str(number))).end("It was refused.")
    assert not small.get("0"), "runs without a line are forgotten too"


@pytest.mark.parametrize(("address", "most"), [("", MAX_PENDING_RUNS), ("10.0.0.1", MAX_RUNS_PER_ADDRESS)])
def test_the_number_of_runs_in_progress_is_limited(address: str, most: int) -> None:
    runs = Runs()
    for number in range(most):
        runs.register(RunLog(str(number), address))
    with pytest.raises(RequestError, match=f"{most} runs"):
        runs.register(RunLog("more", address))
    assert not address or runs.register(RunLog("another", "10.0.0.2"))
    runs.find("3").end()
    assert runs.register(RunLog("more", address))


def test_a_run_in_progress_is_evicted_last_and_then_ends() -> None:
    trace = scripted_trace("ddtree")
    size = RUN_BYTES + sum(map(estimate_bytes, trace.lines))
    runs = Runs(max_bytes=2 * size)
    in_progress = runs.register(RunLog("going on"))
    runs.add(in_progress, trace.header, *trace.entries)
    for name in "ab":
        runs.store(RunLog.recorded(name, trace))
    assert [run for run in ("going on", "a", "b") if runs.get(run)] == ["going on", "b"]
    in_progress.raise_if_stopped()
    other = runs.register(RunLog("other"))
    runs.add(other, trace.header, *trace.entries)
    assert not runs.get("b") and runs.get("going on")
    runs.add(other, *trace.entries[:-1])
    assert not runs.get("going on")
    with pytest.raises(CancellationError):
        in_progress.raise_if_stopped()


def test_a_restarted_run_that_is_stopped_has_the_rounds_since_its_restart() -> None:
    trace, run = scripted_trace("ddtree"), RunLog("anew")
    Runs().add(run, trace.header, *trace.entries[:3], trace.header, *trace.entries[:2])
    run.end()
    assert (whole := run.trace()) and whole.end.rounds == len(whole.entries) == 2


def loaded_and_taken(data: bytes) -> tuple[Trace, int]:
    """Return the trace and the bytes that were allocated meanwhile, by whatever thread."""
    tracemalloc.start()
    trace = loads(data)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return trace, taken


def test_the_estimated_size_of_a_run_is_close_to_its_memory() -> None:
    data = dumps(scripted_trace("joint", 64))
    trace, taken = min((loaded_and_taken(data) for _ in range(5)), key=lambda one: one[1])
    assert 0.5 < (estimate_bytes(trace.header) + sum(map(estimate_bytes, trace.entries))) / taken < 3
