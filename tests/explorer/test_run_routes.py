"""Runs over HTTP: their lines are sent as they are made, from any line on; runs can be stopped and abandoned."""

import json
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette

from engine.records import PromptRequest
from engine.requests.admission import Admission
from engine.trace import Entry, Line, encode_line, loads
from explorer import runs as runs_module
from explorer.lines import MAX_RANKS
from explorer.run_routes import RunRoutes
from explorer.runs import Runner, Runs
from explorer.security.gate import Gate, hosts_of
from explorer.startup import Listening, listener, sockets_of
from tests.explorer.scripted import ENDLESS, ScriptedSource
from tests.explorer.scripted_rigs import current_rig
from tests.running import until

ASK = {"prompt": "How many books?", "method": "ddtree", "budget": 64}
RUNS = "/canopy/runs"
Answer = list[dict[str, Any]]


@dataclass
class RunClient:
    """Send requests to a server of these runs."""

    client: httpx.Client
    runs: Runs
    queue: Admission

    @contextmanager
    def start(self, **options: Any) -> Iterator[Iterator[dict[str, Any]]]:
        """Start a run and yield its lines; leaving the block closes the connection."""
        with self.client.stream("POST", RUNS, json={**ASK, **options}) as answer:
            yield map(json.loads, answer.iter_lines())

    def run(self, **options: Any) -> Answer:
        with self.start(**options) as lines:
            return list(lines)

    def lines(self, run: str, first: int = 0) -> Answer:
        return [json.loads(line) for line in self.client.get(f"{RUNS}/{run}?from={first}").text.splitlines()]


@contextmanager
def serving(source: Any) -> Iterator[RunClient]:
    runs, queue = Runs(), Admission()
    routes = RunRoutes(Runner(current_rig(source), runs, queue), runs.find).routes()
    (bound,) = sockets_of("127.0.0.1", 0)[:1]
    server = listener(Gate(Starlette(routes=routes), hosts_of("127.0.0.1")), Listening())
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}", timeout=30) as client:
            yield RunClient(client, runs, queue)
    finally:
        server.should_exit = True
        thread.join()


def trace_lines(answer: Answer) -> Answer:
    """Return the lines that have a number: those of the trace."""
    return [line for line in answer if not {"state", "about"} & set(line)]


def states(answer: Answer) -> list[str]:
    return [line["state"] for line in answer if "state" in line]


def test_a_run_streams_its_trace_between_two_lines_of_its_state() -> None:
    with serving(ScriptedSource(pause_seconds=0.005)) as served:
        answer = served.run()
        trace = served.runs.trace(answer[0]["run"])
        assert [answer[0]["state"], answer[-1]["state"]] == ["running", "done"]
    sent = trace_lines(answer)
    assert trace.entries[0].round.drafts[0].tokens.shape[2] > MAX_RANKS, "wider than the page draws"
    narrowed = [replace(line, round=replace(line.round, drafts=tuple(
        draft.narrowed(MAX_RANKS) for draft in line.round.drafts))) if isinstance(line, Entry) else line
        for line in trace.lines]
    assert sent == json.loads(json.dumps([encode_line(line) for line in narrowed]))
    read = loads("".join(json.dumps(line) + "\n" for line in sent).encode())
    np.testing.assert_array_equal(read.entries[3].round.tree.tokens, trace.entries[3].round.tree.tokens)


def test_a_lost_connection_resumes_at_the_line_where_it_broke() -> None:
    with serving(ScriptedSource(pause_seconds=0.02)) as served:
        had = []
        with served.start() as lines:
            for line in lines:
                had.append(line)
                if len(trace_lines(had)) > 3:
                    break
        run = had[0]["run"]
        rest = served.lines(run, len(trace_lines(had)))
        assert states(rest)[-1] == "done" and len(states(rest)) > 1
        assert trace_lines(had) + trace_lines(rest) == trace_lines(served.lines(run))
        assert trace_lines(served.lines(run, 10**6)) == []


def test_stop_ends_a_run_at_once_and_keeps_its_rounds() -> None:
    source = ScriptedSource(pause_seconds=0.02)
    with serving(source) as served, served.start(prompt=ENDLESS) as lines:
        first = next(lines)
        had = list(islice(lines, 4))
        assert served.client.delete(f"{RUNS}/{first['run']}").status_code == 204
        rest = list(lines)
        assert rest[-1]["state"] == "stopped" and source.closed == 1 and served.queue.count_entries() == 0
        assert [line["end"]["reason"] for line in rest if "end" in line] == ["stopped"]
        assert trace_lines(had + rest) == trace_lines(served.lines(first["run"]))


def test_a_run_that_nobody_reads_ends_and_one_that_waits_leaves_the_queue(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "READER_TIMEOUT_SECONDS", 0.3)
    source = ScriptedSource(pause_seconds=0.02)
    with serving(source) as served:
        with served.start(prompt=ENDLESS) as running:
            first = next(running)["run"]
            until(lambda: served.queue.running() == 1)
            with served.start(prompt=ENDLESS) as waiting:
                second = next(line["run"] for line in waiting if line["state"] == "queued")
            until(lambda: served.queue.count_entries() == 1)
            time.sleep(0.5)
            assert not served.runs.find(first).ended, "a client reads it"
        until(lambda: served.queue.count_entries() == 0)
        assert states(served.lines(first))[-1] == states(served.lines(second))[-1] == "stopped"
        assert source.closed == 1


def test_a_run_whose_reader_left_makes_room_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "CROWDED_TIMEOUT_SECONDS", 0.1)
    with serving(ScriptedSource(pause_seconds=0.02)) as served:
        with served.start(prompt=ENDLESS) as left:
            first = next(left)["run"]
        until(lambda: not served.runs.find(first).readers)
        time.sleep(0.3)
        assert not served.runs.find(first).ended, "nobody waits for its room"
        with served.start(prompt=ENDLESS, method="ddtree", budget=1024) as lines:
            waits = [line["message"] for line in islice(lines, 8) if "state" in line]
            assert waits and "1,024" in waits[-1]
        assert served.runs.find(first).ended


@pytest.mark.parametrize(("options", "says"), [
    ({"prompt": "  "}, "The prompt is empty"), ({"budget": -1}, "The node budget is -1"),
    ({"colour": 1}, "There is no option 'colour'"), ({"method": "guess"}, "guess")])
def test_invalid_options_are_refused_in_a_sentence(options: dict[str, Any], says: str) -> None:
    with serving(ScriptedSource()) as served:
        (refused,) = served.run(**options)
        assert (refused["state"], refused["run"]) == ("error", "") and says in refused["message"]
        for method, path in (("GET", "/gone"), ("DELETE", "/gone"), ("GET", "/gone?from=-1")):
            assert json.loads(served.client.request(method, RUNS + path).text)["state"] == "error"
        assert json.loads(served.client.post(RUNS, json=[1]).text)["state"] == "error"


def test_a_failure_is_the_last_line_and_earlier_rounds_are_kept() -> None:
    class Failing(ScriptedSource):
        def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
            for count, line in enumerate(super().run(ask)):
                if count == 3:
                    raise ZeroDivisionError("hidden detail")
                yield line
    with serving(Failing()) as served:
        answer = served.run()
        assert answer[-1]["state"] == "error" and "ZeroDivisionError" in answer[-1]["message"]
        assert "hidden" not in str(answer) and len(trace_lines(answer)) == 4
        assert served.queue.count_entries() == 0


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_other_websites_cannot_reach_runs(method: str) -> None:
    with serving(ScriptedSource(pause_seconds=0.02)) as served:
        run = served.run()[0]["run"]
        path = RUNS if method == "POST" else f"{RUNS}/{run}"
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
            answer = served.client.request(method, path, headers=headers, json=ASK if method == "POST" else None)
            assert answer.status_code == 403 and "detail" in answer.json()
        form = {"Content-Type": "text/plain"}
        assert served.client.post(RUNS, content=json.dumps(ASK), headers=form).status_code == 415
