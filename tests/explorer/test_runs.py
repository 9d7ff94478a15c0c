"""Live runs: in turn, kept, ended when nobody looks any more."""

import threading
import tracemalloc
from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest

from engine.errors import RequestError, RigError
from engine.records import PromptRequest
from engine.trace import Block, Entry, Line, SharedPass, dumps, held_bytes, loads
from explorer import runs as runs_module
from explorer.rig_choice import loading
from explorer.run_queue import RunQueue
from explorer.runs import Runs, Stream, Window
from explorer.view import run_view
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_rigs import answering, put_together, watched

ASK = PromptRequest("How many books?", method="ddtree", budget=16)


class Failing(ScriptedSource):
    """Ends after two rounds with the given exception."""

    failure: Exception = RigError("The weights are gone; fetch them again.")

    def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
        for count, line in enumerate(super().run(ask)):
            if count == 3:
                raise self.failure
            yield line


def test_the_updates_are_the_whole_run() -> None:
    views, runs = watched(answering(ScriptedSource(pause_seconds=0.01)), ASK)
    trace = runs.known(views[-1]["run"])
    last = views[-1]
    assert last["state"] == "done" and last["end"]["reason"] == "stop"
    kept = [entry.round.acceptance.keep.tolist() for entry in trace.entries]
    assert [made["keep"] for made in put_together(views)] == kept
    assert len(views) > 4 and max(len(view["rounds"]) for view in views) < len(kept)


def test_a_browser_may_skip_an_update() -> None:
    views, _ = watched(answering(ScriptedSource(pause_seconds=0.01)), ASK)
    assert put_together(views[::2] + views[-1:]) == put_together(views)


def test_closing_ends_the_run_and_keeps_what_was_made() -> None:
    source, runs, queue = ScriptedSource(pause_seconds=0.08), Runs(), RunQueue()
    stream = Stream(answering(source), runs, queue).watch(ASK)
    views = [next(stream) for _ in range(4)]
    stream.close()
    assert source.closed == 1
    trace = runs.known(views[-1]["run"])
    assert trace.end.reason == "stopped" and len(trace.entries) >= len(views[-1]["rounds"]) > 0
    with queue.place() as place:
        assert place.wait(0).ahead == 0


def test_a_second_run_waits_and_is_told_its_place() -> None:
    stream = Stream(answering(ScriptedSource(pause_seconds=0.002)), Runs(), RunQueue())
    first, second = stream.watch(ASK), stream.watch(ASK)
    next(first)
    waiting = next(second)
    assert (waiting["state"], waiting["message"]) == (
        "queued", "A measurement or a large run has the machine to itself; yours starts when it has ended.")
    worker = threading.Thread(target=lambda: list(first))
    worker.start()
    states = [view["state"] for view in second]
    worker.join()
    assert states[-1] == "done"


def test_whoever_leaves_the_line_lets_the_next_one_up() -> None:
    queue = RunQueue()
    stream = Stream(answering(ScriptedSource()), Runs(), queue)
    first, second, third = (stream.watch(ASK) for _ in range(3))
    next(first)
    next(second)
    assert "one more waits before yours" in next(third)["message"]
    second.close()
    first.close()
    assert [view["state"] for view in third][-1] == "done"


def test_runs_share_the_machine_up_to_its_room_and_are_told() -> None:
    source = ScriptedSource(pause_seconds=0.002, room=1 / 8)
    stream = Stream(answering(source), Runs(), RunQueue())
    eight = [stream.watch(ASK) for _ in range(8)]
    assert [next(run)["state"] for run in eight] == ["running"] * 8
    ninth, tenth = stream.watch(ASK), stream.watch(ASK)
    assert next(ninth)["message"] == "8 runs share this machine; yours starts when one of them ends."
    assert next(tenth)["message"] == (
        "8 runs share this machine; one more waits before yours, which starts when one of them ends.")
    eight[3].close()
    assert next(ninth)["state"] == "running"
    eight[5].close()
    assert [view["state"] for view in tenth][-1] == "done"


def test_whoever_measures_waits_for_all_runs_and_later_runs_wait_for_it() -> None:
    queue = RunQueue()
    stream = Stream(answering(ScriptedSource(room=1 / 8)), Runs(), queue)
    first, second = stream.watch(ASK), stream.watch(ASK)
    assert [next(run)["state"] for run in (first, second)] == ["running"] * 2
    with queue.place() as measurement:
        assert measurement.wait(0).ahead == 2
        late = stream.watch(ASK)
        assert next(late)["message"].startswith("2 runs share this machine; one more waits before yours")
        first.close()
        second.close()
        assert measurement.wait(0).ahead == 0
        assert next(late)["message"].startswith("A measurement or a large run has the machine to itself")
    assert next(late)["state"] == "running"


def test_what_is_kept_of_a_run_has_nothing_of_others() -> None:
    shared_pass = SharedPass(2, 0, (Block(0, np.zeros(1, np.int32), np.zeros(1, np.int32)),
                             Block(1, np.arange(-1, 6, dtype=np.int32).clip(0), np.arange(3, dtype=np.int32))))

    class Accompanied(ScriptedSource):
        def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
            for line in super().run(ask):
                yield replace(line, shared_pass=shared_pass) if isinstance(line, Entry) else line
    views, runs = watched(answering(Accompanied()), ASK)
    trace = runs.known(views[-1]["run"])
    sent = [made["shared"] for view in views for made in view["rounds"]]
    assert sent and all(set(shared) == {"runs", "own", "blocks"} for shared in sent)
    assert {frozenset(block) for shared in sent for block in shared["blocks"]} == {frozenset(
        {"seat", "parents", "keep", "pools_rows"})}
    assert not [entry for entry in trace.entries if entry.shared_pass]
    assert b"shared" not in dumps(trace) and "shared" not in str(run_view("x", trace.entries))


def test_a_failure_is_a_sentence_and_the_rounds_stay() -> None:
    last = watched(answering(Failing()), ASK)[0][-1]
    assert (last["state"], last["message"]) == ("error", "The weights are gone; fetch them again.")
    assert len(last["rounds"]) == 2


def test_an_unforeseen_failure_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = Failing()
    source.failure = ZeroDivisionError("hidden detail")
    queue = RunQueue()
    *_, last = Stream(answering(source), Runs(), queue).watch(ASK)
    assert last["state"] == "error" and "ZeroDivisionError" in last["message"]
    assert "hidden detail" not in last["message"] and "hidden detail" in caplog.text
    *_, after = Stream(answering(ScriptedSource()), Runs(), queue).watch(ASK)
    assert after["state"] == "done"


def test_what_is_remembered_is_bounded_by_bytes() -> None:
    trace = scripted_trace("ddtree")
    lines: list[Line] = [trace.header, *trace.entries, trace.end]
    size = sum(map(held_bytes, lines))
    runs = Runs(most_bytes=3 * size)
    for name in "abcd":
        runs.begin(name)
        runs.add(name, *lines)
    with pytest.raises(RequestError, match="which is the most that is remembered"):
        runs.add("d", *lines, *lines, *lines)  # refused for its size, and so takes no room of others
    assert [name for name in "abcd" if runs.trace(name)] == ["b", "c", "d"]
    with pytest.raises(RequestError, match="There is no run 'a' any more"):
        runs.known("a")
    small = Runs(most_bytes=size - 1)
    small.begin("run")
    with pytest.raises(RequestError, match="which is the most that is remembered"):
        for line in lines:
            small.add("run", line)
    assert small.known("run").end.reason == "stopped", "what was made is kept"
    small.add("gone", trace.header)
    assert small.trace("gone") is None


def test_who_left_while_the_first_rig_is_loaded_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        address, asked = "gone", 0

        def check(self) -> None:
            self.asked += 1
            if self.asked > 2:
                raise RequestError("Nobody has listened, so the run was given up; ask again.")
    gone = Gone()
    monkeypatch.setattr(runs_module, "asker", lambda: gone)
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        assert len(looks) < 20, "nobody is there any more"
    monkeypatch.setattr(runs_module, "sleep", sleep)
    rig = answering(ScriptedSource())
    rig.coming = loading("never there")
    views = list(Stream(rig, Runs(), RunQueue()).watch(ASK))
    assert [view["state"] for view in views] == ["queued", "error"] and gone.asked == 3


def test_the_weight_of_a_run_is_near_what_it_takes() -> None:
    data = dumps(scripted_trace("joint", 64))
    tracemalloc.start()
    trace = loads(data)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    lines: list[Line] = [trace.header, *trace.entries]
    assert 0.5 < sum(map(held_bytes, lines)) / taken < 3


def test_updates_send_new_rounds_and_those_before_them_but_never_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.runs.MOST_NEW", 4)
    trace, window, sent = scripted_trace("ddtree", 4), Window("x"), []
    window.add(trace.header)
    for entry in (None, *trace.entries[:1], None, *trace.entries[1:3]):
        if entry:
            window.add(entry)
        sent.append((view := window.value())["from"] + 10 * len(view["rounds"]))
    assert sent == [0, 10, 10, 20, 21]  # where nothing is new, the latest once more
    for _ in range(9):
        window.add(trace.entries[3])
    assert ((view := window.value())["from"], len(view["rounds"])) == (8, 4), "browsers ask for what lies between"
    window.add(trace.entries[3])
    assert ((view := window.value())["from"], len(view["rounds"])) == (8, 5)
