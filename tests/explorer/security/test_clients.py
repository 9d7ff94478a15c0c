"""Requesters: a place in the queue lapses if nobody listens, an address has few places, password guesses are slowed."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import gradio as gr
import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from engine.errors import RequestError
from engine.records import PromptRequest
from engine.requests.admission import Admission
from explorer import jobs
from explorer.endpoints import Endpoints
from explorer.jobs import Jobs
from explorer.page import build, guarded
from explorer.recordings import Library
from explorer.runs import Runner, Runs
from explorer.security import clients
from explorer.security.clients import ALLOWED_FAILURES, MAX_LOGIN_WAIT_SECONDS, Logins, Readers, Requester, client_key
from explorer.security.gate import Address, Gate, hosts_of
from explorer.startup import Listening
from tests.explorer.scripted import ENDLESS, ScriptedRun, ScriptedSource
from tests.explorer.scripted_rigs import current_rig
from tests.running import completed, until


class Clock:
    """Return the same time until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_run_without_a_listener_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = Readers()
    monkeypatch.setattr("explorer.endpoints.LISTENER_TIMEOUT_SECONDS", 0.2)
    requester = Requester(is_connected=lambda: readers.is_open("s"))
    monkeypatch.setattr("explorer.endpoints.current_requester", lambda: requester)
    source, runs = ScriptedSource(pause_seconds=0.01), Runs()
    endpoints = Endpoints(Library([]), runs, Runner(current_rig(source), runs, Admission()))
    answers = endpoints._generate(ENDLESS, "ddtree", 16)
    with readers.reading("s"), readers.reading("s"):
        end = monotonic() + 0.5
        while monotonic() < end:
            state = next(answers)["state"]
        assert state == "running" and source.closed < 1
    with pytest.raises(gr.Error, match="disconnected"):
        list(answers)
    until(lambda: source.closed == 1)


def test_measurements_that_nobody_polls_lapse_and_few_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "POLL_TIMEOUT_SECONDS", 0.1)
    queue = Admission()
    asked = Jobs(queue)
    with queue.enter():
        names = [asked.start(lambda _: 1) for _ in range(jobs.MAX_OPEN_JOBS)]
        with pytest.raises(RequestError, match="8"):
            asked.start(lambda _: 1)
        until(lambda: queue.count_entries() == 1)
    assert {asked.poll({"job": name})["state"] for name in names} == {"stopped"}


def test_a_stream_that_is_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "STALL_SECONDS", 0.05)

    async def stuck(_: Any) -> None:
        await asyncio.sleep(5)
    with pytest.raises(TimeoutError):
        completed(clients.with_send_timeout(stuck)({"type": "http.response.body"}))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(("proxies", "cache"), [((), "10.0.0.1"), ([("canopy.example", None)], None)])
def test_runs_that_come_through_the_gate_have_a_requester(
        proxies: Sequence[Address], cache: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Requester] = []
    caches: list[str | None] = []

    class Noting(ScriptedSource):
        def prepare(self, ask: PromptRequest, interrupt: Callable[[], None] | None = None, *,
                    cache_key: str | None = "") -> ScriptedRun:
            caches.append(cache_key)
            return super().prepare(ask, interrupt, cache_key=cache_key)
    ask_gradio = clients.current_requester

    def noted() -> Requester:
        seen.append(ask_gradio())
        return seen[-1]
    monkeypatch.setattr("explorer.endpoints.current_requester", noted)

    async def act() -> str:
        app = guarded(*build(current_rig(Noting()), Library([])), Listening(allowed=proxies))
        transport = httpx.ASGITransport(app, client=("10.0.0.1", 1))
        async with app.router.lifespan_context(app), httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:7860", timeout=60) as client:
            await client.post("/canopy/runs", json={"prompt": "Hi", "method": "ddtree", "budget": 4})
            begun = await client.post("/gradio_api/call/generate", json={"data": ["Hi", "ddtree", 4, 0, {}]})
            return (await client.get(f"/gradio_api/call/generate/{begun.json()['event_id']}")).text
    assert "event: complete" in completed(act())
    assert seen[0].address == "10.0.0.1" and not seen[0].is_connected() and caches == [cache, cache]


@pytest.mark.parametrize(("behind", "client", "forwarded", "cache"), [
    (False, "10.0.0.1", "", "10.0.0.1"), (True, "10.0.0.7", "10.0.0.7", "10.0.0.7"),
    (True, "10.0.0.7", "8.8.8.8, 10.0.0.7", "10.0.0.7"), (True, "10.0.0.1", "10.0.0.17, 110.0.0.1", None),
    (True, "10.0.0.1", "", None)])
def test_people_behind_a_proxy_do_not_share_one_cache(
        behind: bool, client: str, forwarded: str, cache: str | None) -> None:
    seen: list[str | None] = []

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(clients.cache_key_of(scope))
        await PlainTextResponse("")(scope, receive, send)

    async def act() -> None:
        app = Gate(page, hosts_of("127.0.0.1", [("canopy.example", None)] if behind else (), ()))
        transport = httpx.ASGITransport(app, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as asking:
            await asking.get("/config", headers={"X-Forwarded-For": forwarded} if forwarded else {})
    completed(act())
    assert seen == [cache]


def test_the_wait_after_failed_logins_doubles_up_to_a_limit_and_then_ends() -> None:
    clock = Clock()
    logins, waits = Logins(clock), []
    for _ in range(ALLOWED_FAILURES + 8):
        logins.attempt("10.0.0.1")
        waits.append(logins.wait_seconds("10.0.0.1"))
    assert waits == [0.0] * ALLOWED_FAILURES + [2, 4, 8, 16, 32, 60, 60, 60] and max(waits) == MAX_LOGIN_WAIT_SECONDS
    assert logins.wait_seconds("10.0.0.2") == 0
    clock.now += MAX_LOGIN_WAIT_SECONDS
    assert logins.wait_seconds("10.0.0.1") == 0
    logins.succeeded("10.0.0.1")
    logins.attempt("10.0.0.1")
    assert logins.wait_seconds("10.0.0.1") == 0


def test_an_ipv6_network_of_a_household_counts_as_one_address() -> None:
    assert client_key("2001:db8:1:2::1") == client_key("2001:db8:1:2:ffff::9") != client_key("2001:db8:1:3::1")
    assert client_key("::ffff:10.0.0.1") == client_key("10.0.0.1") != client_key("10.0.0.2")
    assert client_key("testclient") == "testclient"


def test_remembered_logins_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_REMEMBERED_ADDRESSES", 3)
    logins = Logins(Clock())
    for number in range(5):
        for _ in range(ALLOWED_FAILURES + 1):
            logins.attempt(f"10.0.0.{number}")
    assert [logins.wait_seconds(f"10.0.0.{number}") for number in range(5)] == [0, 0, 2, 2, 2]
