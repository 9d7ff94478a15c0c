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
from explorer.runs import Run, Runs, Stream, Window
from explorer.view import piece_view
from tests.explorer.scripted import ScriptedSource, going_on, scripted_trace
from tests.explorer.scripted_rigs import ASK, answering, put_together, watched


class Failing(ScriptedSource):
    """Ends after two rounds with the given exception."""

    failure: Exception = RigError("The weights are gone; fetch them again.")

    def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
        for count, line in enumerate(super().run(ask)):
            if count == 3:
                raise self.failure
            yield line


def stream_of(source: ScriptedSource, runs: Runs | None = None) -> tuple[Stream, RunQueue]:
    queue = RunQueue()
    return Stream(answering(source), runs or Runs(), queue), queue


def test_the_updates_are_the_whole_run_and_a_browser_may_skip_one() -> None:
    views, runs = watched(answering(ScriptedSource(pause_seconds=0.01)))
    last, trace = views[-1], runs.known(views[-1]["run"])
    assert last["state"] == "done" and last["end"]["reason"] == "stop"
    kept = [entry.round.acceptance.keep.tolist() for entry in trace.entries]
    assert [round_["keep"] for round_ in put_together(views)] == kept
    assert len(views) > 4 and max(len(view["rounds"]) for view in views) < len(kept)
    assert put_together(views[::2] + views[-1:]) == put_together(views)


def test_closing_ends_the_run_and_keeps_what_was_made() -> None:
    source, runs = ScriptedSource(pause_seconds=0.08), Runs()
    stream, queue = stream_of(source, runs)
    watching = stream.watch(ASK)
    views = [next(watching) for _ in range(4)]
    watching.close()
    trace = runs.known(views[-1]["run"])
    assert source.closed == 1 and queue.waiting() == 0
    assert trace.end.reason == "stopped" and len(trace.entries) >= len(views[-1]["rounds"]) > 0


def test_a_second_run_waits_and_is_told_its_place() -> None:
    stream, _ = stream_of(ScriptedSource(pause_seconds=0.002))
    first, second = stream.watch(ASK), stream.watch(ASK)
    next(first)
    waiting = next(second)
    assert waiting["state"] == "queued" and "large run" in waiting["message"]
    assert "measurement" not in waiting["message"], "nothing is measured"
    worker = threading.Thread(target=lambda: list(first))
    worker.start()
    assert [view["state"] for view in second][-1] == "done"
    worker.join()


def test_whoever_leaves_the_line_lets_the_next_one_up() -> None:
    stream, _ = stream_of(ScriptedSource())
    first, second, third = (stream.watch(ASK) for _ in range(3))
    next(first)
    next(second)
    assert "one more waits before yours" in next(third)["message"]
    second.close()
    first.close()
    assert [view["state"] for view in third][-1] == "done"


def test_runs_share_the_machine_up_to_its_room_and_are_told() -> None:
    stream, _ = stream_of(ScriptedSource(pause_seconds=0.002, room=1 / 8))
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
    stream, queue = stream_of(ScriptedSource(room=1 / 8))
    first, second = stream.watch(ASK), stream.watch(ASK)
    assert [next(run)["state"] for run in (first, second)] == ["running"] * 2
    with queue.place() as measurement:
        assert queue.wait(measurement, 0).startswith("2 runs share this machine; yours starts")
        late = stream.watch(ASK)
        assert next(late)["message"].startswith("2 runs share this machine; one more waits before yours")
        first.close()
        second.close()
        assert measurement.begun
        assert next(late)["message"].startswith("A measurement has the machine to itself")
    assert next(late)["state"] == "running"


def test_what_is_kept_of_a_run_has_nothing_of_others() -> None:
    shared_pass = SharedPass(2, 0, (Block(0, np.zeros(1, np.int32), np.zeros(1, np.int32)),
                             Block(1, np.arange(-1, 6, dtype=np.int32).clip(0), np.arange(3, dtype=np.int32))))

    class Accompanied(ScriptedSource):
        def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
            for line in super().run(ask):
                yield replace(line, shared=shared_pass) if isinstance(line, Entry) else line
    views, runs = watched(answering(Accompanied()))
    trace = runs.known(views[-1]["run"])
    sent = [round_["shared"] for view in views for round_ in view["rounds"]]
    assert sent and all(set(shared) == {"runs", "own", "blocks"} for shared in sent)
    assert {frozenset(block) for shared in sent for block in shared["blocks"]} == {frozenset(
        {"seat", "parents", "keep", "pools_rows"})}
    assert not [entry for entry in trace.entries if entry.shared]
    assert b"shared" not in dumps(trace) and "shared" not in str(piece_view("x", trace))


def test_a_failure_is_a_sentence_and_the_rounds_stay(caplog: pytest.LogCaptureFixture) -> None:
    source = Failing()
    last = watched(answering(source))[0][-1]
    assert (last["state"], last["message"]) == ("error", "The weights are gone; fetch them again.")
    assert len(last["rounds"]) == 2
    source.failure = ZeroDivisionError("hidden detail")
    stream, queue = stream_of(source)
    *_, last = stream.watch(ASK)
    assert last["state"] == "error" and "ZeroDivisionError" in last["message"]
    assert "hidden detail" not in last["message"] and "hidden detail" in caplog.text and queue.waiting() == 0


def test_what_is_remembered_is_bounded_by_bytes() -> None:
    trace = scripted_trace("ddtree")
    lines: list[Line] = [trace.header, *trace.entries, trace.end]
    size = sum(map(held_bytes, lines))
    runs = Runs(most_bytes=3 * size)
    for name in "abcd":
        runs.add(runs.begin(Run(name)), *lines)
    with pytest.raises(RequestError, match="which is the most that is remembered"):
        runs.add(runs.find("d"), *lines, *lines, *lines)  # refused for its size, and so takes no room of others
    assert [name for name in "abcd" if runs.trace(name)] == ["b", "c", "d"]
    with pytest.raises(RequestError, match="There is no run 'a' any more"):
        runs.known("a")
    small = Runs(most_bytes=size - 1)
    run = small.begin(Run("run"))
    with pytest.raises(RequestError, match="which is the most that is remembered"):
        for line in lines:
            small.add(run, line)
    assert small.known("run").end.reason == "stopped", "what was made is kept"


def test_who_left_while_the_first_rig_is_loaded_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        address, asked = "gone", 0

        def check(self) -> None:
            self.asked += 1
            assert self.asked < 20, "nobody is there any more"
            if self.asked > 2:
                raise RequestError("Nobody has listened, so the run was given up; ask again.")
    gone, rig = Gone(), answering(ScriptedSource())
    monkeypatch.setattr(runs_module, "asker", lambda: gone)
    monkeypatch.setattr(runs_module, "sleep", lambda seconds: None)
    rig.coming = loading("never there")
    assert [view["state"] for view in watched(rig)[0]] == ["queued", "error"] and gone.asked == 3


def test_the_weight_of_a_run_is_near_what_it_takes() -> None:
    data = dumps(scripted_trace("joint", 64))
    tracemalloc.start()
    trace = loads(data)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.5 < (held_bytes(trace.header) + sum(map(held_bytes, trace.entries))) / taken < 3


def test_updates_send_new_rounds_and_those_before_them_but_never_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.runs.MAX_NEW", 4)
    trace, window, sent = scripted_trace("ddtree", 4), Window("x"), []
    window.add(trace.header)
    for entry in (None, *trace.entries[:1], None, *trace.entries[1:3]):
        if entry:
            window.add(entry)
        sent.append((view := window.value())["from"] + 10 * len(view["rounds"]))
    assert sent == [0, 10, 10, 20, 21]  # if nothing is new, the latest once more
    for _ in range(9):
        window.add(trace.entries[3])
    assert ((view := window.value())["from"], len(view["rounds"])) == (8, 4), "browsers ask for what lies between"
    window.add(trace.entries[3])
    assert ((view := window.value())["from"], len(view["rounds"])) == (8, 5)


@pytest.mark.parametrize(("tokens", "loops"), [(900, True), (150, False)])
def test_a_text_that_repeats_itself_is_said_to_while_it_is_written(tokens: int, loops: bool) -> None:
    window, told, lengths = Window("x"), [], list[int]()
    for line in ScriptedSource().run(PromptRequest(going_on(tokens), method="ddtree", budget=16, max_tokens=tokens)):
        if line is not None:
            window.add(line)
            lengths += [len(line.round.acceptance.keep)] if isinstance(line, Entry) else []
            told.append(window.value()["repetition"])
    assert (told[-1] is not None) == loops and any(told[:-1]) == loops
    if loops:
        last = told[-1]
        before = sum(lengths[:last["round"]])
        assert before <= last["token"] < before + lengths[last["round"]]
        assert f"{before / last['round']:.2f} before" in last["words"] and str(last["token"] + 1) in last["words"]
