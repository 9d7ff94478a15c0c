"""No request delays others: the thread that answers everybody works on one only briefly at a time."""

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from engine.trace import Trace, as_recording, dumps
from explorer.browser_calls import CHUNK_BYTES, as_json_calls, browser_call
from explorer.page import build, guarded
from explorer.recordings import Library, Recording
from explorer.startup import Listening
from tests.attack.asgi import Answer, ask, start_app
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import current_rig
from tests.running import completed

MAX_SECONDS = 0.1  # of processor time; the goal is 0.05, but a machine may be busy
ROUNDS = {"long": 3_000, "short": 30}
HEADERS = (("Host", "127.0.0.1:7860"), ("Content-Type", "application/json"))
PREFIX = "/gradio_api"


@cache
def trace_of(length: str) -> Trace:
    """Return a recording of many rounds, or of few."""
    short, rounds = as_recording(scripted_trace("ddtree", 4), length, "", "2026-11-20"), ROUNDS[length]
    entries = (short.entries * (rounds // len(short.entries) + 1))[:rounds]
    return Trace(short.header, tuple(
        replace(entry, round=replace(entry.round, index=index)) for index, entry in enumerate(entries)), short.end)


class Server:
    """Send requests to the page in this process."""

    def __init__(self, app: Any, page: Any, run: str) -> None:
        self._app, self.run, self.rounds = app, run, ROUNDS[run]
        self._parts = {name: part["id"] for part in page.config["components"]
                       for name in part["props"].get("server_fns") or ()}

    async def post(self, path: str, body: bytes) -> Answer:
        """Send a JSON body to a path of the API."""
        return await ask(self._app, "POST", PREFIX + path, HEADERS, body, 120)

    async def get(self, path: str) -> bytes:
        """Return the body at the path."""
        return (await ask(self._app, "GET", path, HEADERS, b"", 120)).body

    async def call(self, name: str, data: Any) -> Any:
        """Call a function of the page."""
        body = {"data": data, "component_id": self._parts[name], "fn_name": name, "session_hash": "x"}
        return json.loads((await self.post("/component_server", json.dumps(body).encode())).body)

    async def named(self, name: str, *values: Any) -> Any:
        """Call a function of the API; return its last answer."""
        event = json.loads((await self.post(f"/call/{name}", json.dumps({"data": values}).encode())).body)["event_id"]
        stream = await ask(self._app, "GET", f"{PREFIX}/call/{name}/{event}", HEADERS, b"", 120)
        return json.loads(stream.body.decode().rpartition("data: ")[2])[0]


async def read_lines(server: Server, name: str = "") -> None:
    """Read all lines of a recording."""
    assert (await server.get(f"/canopy/runs/{name or server.run}")).count(b'{"round":') == server.rounds


async def read_trace(server: Server) -> None:
    """Read a recording's trace file, in pieces."""
    lines = 0
    while lines < server.rounds + 2:
        lines += (await server.named("trace", server.run, lines)).count("\n")
    assert lines == server.rounds + 2


async def export(server: Server) -> None:
    """Export a recording as a file of every kind."""
    for kind in ("trace", "rounds", "tree", "replay"):
        assert (await server.call("export", {"kind": kind, "run": server.run, "round": 0}))["data"]


async def draw(server: Server) -> None:
    """Draw a recording in the lab, and compare it with another."""
    run = {"run": server.run}
    assert (await server.call("lab_acceptance", run))["lengths"]
    assert (await server.call("two_runs", {"first": run, "second": run}))["same_text"]
    assert len(await server.call("lab_plotly", {})) > 10**6


async def upload(server: Server) -> None:
    """Upload a recording and open it."""
    data, name = dumps(trace_of(server.run)), ""
    for begin in range(0, len(data), 2**20):
        piece = base64.b64encode(data[begin:begin + 2**20]).decode()
        name = (await server.call("upload", {"upload": name, "data": piece}))["upload"]
    await read_lines(server, (await server.call("open_trace", {"name": "mine.jsonl", "upload": name}))["run"])


async def send_costly_bodies(server: Server) -> None:
    """Send bodies that are as costly to parse as the limits allow."""
    digits = b'{"data": [' + b",".join([b"7" * 4200] * 490) + b"]}"
    flat = b'{"data": [' + b",".join([b"7"] * 49_000) + b"]}"
    deep = b'{"data": [' + b",".join([b'{"a":[]}'] * 16_000) + b"]}"
    for path in ("/component_server", "/queue/join", "/call/trace", "/cancel", "/run/predict"):
        for body in (flat, deep, b'{"data":"' + b"\\u00e9" * 340_000 + b'"}'):
            await server.post(path, body)
        assert (await server.post(path, digits)).status in (400, 413)


def test_a_long_answer_is_sent_in_parts() -> None:
    sent: list[Any] = []

    async def take(message: Any) -> None:
        sent.append(message)

    (call,) = as_json_calls([browser_call("export", lambda _: b"x" * (5 * CHUNK_BYTES + 1))])
    completed(_sent(call, take))
    assert max(len(message.get("body", b"")) for message in sent) <= CHUNK_BYTES
    assert b"".join(message.get("body", b"") for message in sent) == b"x" * (5 * CHUNK_BYTES + 1)
    assert [message.get("more_body") for message in sent[1:]] == [True] * 6 + [False]


async def _sent(call: Callable[..., Any], take: Callable[[Any], Any]) -> None:
    await (await call({}))({"type": "http", "asgi": {"spec_version": "2.4"}}, None, take)


@pytest.mark.slow
@pytest.mark.parametrize("hostile", [read_lines, read_trace, export, draw, upload, send_costly_bodies])
def test_no_request_blocks_the_event_loop(
        hostile: Callable[[Server], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken: list[tuple[float, str]] = []
    run = asyncio.Handle._run

    def timed(handle: Any) -> None:
        began, what = thread_time(), repr(handle)[:400]
        run(handle)
        taken.append((thread_time() - began, what))

    async def asked() -> None:
        library = Library([])
        library.recordings = {length: Recording(length, trace_of(length)) for length in ROUNDS}
        page, routes = build(current_rig(), library, results=tmp_path / "results.sqlite")
        app = guarded(page, routes, Listening())
        alive = await start_app(app)
        await hostile(Server(app, page, "short"))  # the first call imports modules
        monkeypatch.setattr(asyncio.Handle, "_run", timed)
        await hostile(Server(app, page, "long"))
        monkeypatch.undo()
        alive.cancel()

    completed(asked())
    assert len(taken) > 10 and max(taken) < (MAX_SECONDS, ""), max(taken)
