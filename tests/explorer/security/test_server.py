"""The page as it is served: behind the gate, with a login, on every address of this machine."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from engine.errors import RequestError
from explorer.opening import Listening, sockets_of
from explorer.page import build
from explorer.recordings import Library
from explorer.security.gate import FOLDERS
from explorer.server import guarded
from tests.explorer.scripted import ScriptedSource
from tests.explorer.scripted_rigs import answering
from tests.running import completed

OWN = "http://127.0.0.1:7860"
NAME, PASSWORD = "someone", "correct horse"


def asked(listening: Listening, act: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
    """What comes of asking the page that listens like that."""
    async def ask() -> Any:
        app = guarded(build(answering(ScriptedSource()), Library([])), listening)
        transport = httpx.ASGITransport(app, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url=OWN) as client:
            return await act(client)
    return completed(ask())


def test_a_login_gives_a_cookie_that_stays_at_home_and_opens_the_page() -> None:
    async def act(client: httpx.AsyncClient) -> list[int]:
        before = await client.get("/config")
        wrong = await client.post("/login", data={"username": NAME, "password": "wrong"})
        right = await client.post("/login", data={"username": NAME, "password": PASSWORD}, headers={"Origin": OWN})
        cookies = [value.lower() for value in right.headers.get_list("set-cookie")]
        assert len(cookies) == 2 and all("samesite=lax" in each and "httponly" in each for each in cookies)
        return [before.status_code, wrong.status_code, right.status_code, (await client.get("/config")).status_code]
    assert asked(Listening(auth=(NAME, PASSWORD)), act) == [401, 400, 200, 200]


def test_nothing_is_read_of_whom_has_not_logged_in() -> None:
    read: list[int] = []

    async def digits() -> AsyncIterator[bytes]:
        for _ in range(36):
            read.append(2**20)
            yield b"[" + b"7" * 4200 + b"," * (2**20 - 4201)

    async def act(client: httpx.AsyncClient) -> list[int]:
        as_json = {"Content-Type": "application/json"}
        paths = ("component_server", "queue/join", "call/generate", "run/predict", "cancel", "reset", "call/v2/replay")
        before = [(await client.post(f"/gradio_api/{path}", content=digits(), headers=as_json)).status_code
                  for path in paths]
        assert read == []
        await client.post("/login", data={"username": NAME, "password": PASSWORD})
        after = await client.post("/gradio_api/component_server", json={"data": {}, "session_hash": "x"})
        stale = await client.post("/gradio_api/reset", json={}, headers={"Cookie": "access-token-x=y"})
        return [*before, after.status_code, stale.status_code]
    assert asked(Listening(auth=(NAME, PASSWORD)), act) == [*[401] * 7, 404, 401]


def test_guessing_a_password_is_slow_and_another_website_cannot_log_anybody_in() -> None:
    async def act(client: httpx.AsyncClient) -> list[int]:
        form = {"username": NAME, "password": PASSWORD}
        evil = await client.post("/login", data=form, headers={"Origin": "http://evil.example"})
        guesses = [await client.post("/login", data={**form, "password": str(guess)}) for guess in range(8)]
        late = await client.post("/login", data=form)
        return [evil.status_code, *[each.status_code for each in guesses], late.status_code]
    assert asked(Listening(auth=(NAME, PASSWORD)), act) == [403, *[400] * 6, 429, 429, 429]


ODD_PATHS = ["x" * 300, "é" * 150, "a/" * 600, "%00", "x%00.js", "..", "../x", "%2e%2e/x", "a/../b", "%ff", "x/" * 90]


def test_a_path_that_no_file_can_have_is_not_there() -> None:
    async def act(client: httpx.AsyncClient) -> dict[str, int]:
        paths = [f"{folder}{path}" for path in ODD_PATHS for folder in (
            *FOLDERS, "/pwa_icon/", "/gradio_api/info/", "/config/", "/favicon.ico/", "/?deep_link=")]
        return {path: (await client.get(path)).status_code for path in paths}
    statuses = asked(Listening(), act)
    assert statuses[f"/static/{'x' * 300}"] == 404 and statuses["/static/x%00.js"] == 404
    assert {path: status for path, status in statuses.items() if status >= 500} == {}


@pytest.mark.slow
def test_functions_of_the_page_cannot_skip_the_queue() -> None:
    async def act(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/gradio_api/run/generate", json={"data": ["Hi", "ddtree", 4, 0, {}]})
    assert asked(Listening(), act).status_code == 404


def test_this_machine_is_both_its_addresses_and_all_is_all() -> None:
    made = sockets_of("localhost", 0)
    assert {each.getsockname()[0] for each in made} <= {"127.0.0.1", "::1"} and len(
        {each.getsockname()[1] for each in made}) == 1
    everywhere = sockets_of("0.0.0.0", 0)
    assert [each.getsockname()[0] for each in everywhere] == ["0.0.0.0"]
    for each in (*made, *everywhere):
        each.close()


@pytest.mark.parametrize(("host", "port"), [
    ("127.0.0.1", 99_999), ("127.0.0.1", -1), ("203.0.113.9", 0), ("no such host", 0), ("a" * 300, 0), ("x\0y", 0)])
def test_where_nobody_can_listen_is_said(host: str, port: int) -> None:
    with pytest.raises(RequestError, match="cannot be served on"):
        sockets_of(host, port)


def test_a_port_in_use_is_said() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(RequestError, match="already in use"):
            sockets_of("127.0.0.1", other.getsockname()[1])
