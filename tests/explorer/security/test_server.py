"""The page as it is served: behind the gate, with a login, on every address of this machine."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from engine.errors import RequestError
from explorer.page import build, guarded
from explorer.recordings import Library
from explorer.security.bodies import RUNS
from explorer.security.gate import ROUTE_PREFIXES
from explorer.startup import Listening, sockets_of
from tests.explorer.scripted import ScriptedSource
from tests.explorer.scripted_rigs import current_rig

HERE = "http://127.0.0.1:7860"
NAME, PASSWORD = "someone", "correct horse"


@pytest.fixture(scope="module")
def built() -> Any:
    """Provide the page and its routes."""
    return build(current_rig(ScriptedSource()), Library([]))


@pytest.fixture
def page(built: Any, request: pytest.FixtureRequest) -> TestClient:
    """Provide a client on another machine, which has to log in."""
    blocks, routes = built
    app = guarded(blocks, routes, Listening(auth=getattr(request, "param", (NAME, PASSWORD))))
    return TestClient(app, base_url=HERE, client=("10.0.0.1", 1), follow_redirects=False)


def test_a_login_sets_a_same_site_cookie_that_opens_the_page(page: TestClient) -> None:
    assert page.get("/config").status_code == 401
    assert page.post("/login", data={"username": NAME, "password": "wrong"}).status_code == 400
    right = page.post("/login", data={"username": NAME, "password": PASSWORD}, headers={"Origin": HERE})
    cookies = [value.lower() for value in right.headers.get_list("set-cookie")]
    assert right.status_code == 200 and len(cookies) == 2
    assert all("samesite=lax" in cookie and "httponly" in cookie for cookie in cookies)
    assert page.get("/config").status_code == 200


def test_no_body_is_read_before_a_login(page: TestClient) -> None:
    read: list[int] = []

    def digits() -> Iterator[bytes]:
        for _ in range(36):
            read.append(2**20)
            yield b"[" + b"7" * 4200 + b"," * (2**20 - 4201)

    as_json = {"Content-Type": "application/json"}
    for path in ("component_server", "queue/join", "call/generate", "run/predict", "cancel", "reset"):
        assert page.post(f"/gradio_api/{path}", content=digits(), headers=as_json).status_code == 401
    assert page.post(RUNS, content=digits(), headers=as_json).status_code == 401
    assert read == []
    assert page.get(f"{RUNS}/welcome").status_code == page.delete(f"{RUNS}/welcome").status_code == 401
    page.post("/login", data={"username": NAME, "password": PASSWORD})
    assert page.get(f"{RUNS}/welcome").json()["state"] == "error"
    asked = {"data": {}, "session_hash": "x"}
    assert page.post("/gradio_api/component_server", json=asked).status_code == 404
    page.cookies.clear()
    assert page.post("/gradio_api/reset", json={}, headers={"Cookie": "access-token-x=y"}).status_code == 401


def test_guessing_a_password_is_slow_and_another_website_cannot_log_anybody_in(page: TestClient) -> None:
    form = {"username": NAME, "password": PASSWORD}
    assert page.post("/login", data=form, headers={"Origin": "http://evil.example"}).status_code == 403
    guesses = [page.post("/login", data={**form, "password": str(guess)}).status_code for guess in range(8)]
    right = page.post("/login", data=form)
    assert guesses == [*[400] * 6, 429, 429] and right.status_code == 429
    assert int(right.headers["retry-after"]) >= 1


ODD_PATHS = ["x" * 300, "é" * 150, "a/" * 600, "%00", "x%00.js", "..", "../x", "%2e%2e/x", "a/../b", "%ff", "x/" * 90]


@pytest.mark.parametrize("page", [None], indirect=True)
def test_an_impossible_path_is_not_found_and_no_call_skips_the_queue(page: TestClient) -> None:
    asked = {"data": ["Hi", "ddtree", 4, 0, {}]}
    assert page.post("/gradio_api/run/generate", json=asked).status_code == 404
    statuses = {path: page.get(path).status_code for odd in ODD_PATHS for path in (
        f"{folder}{odd}" for folder in (
            *ROUTE_PREFIXES, "/pwa_icon/", "/gradio_api/info/", "/config/", "/favicon.ico/", "/?deep_link="))}
    assert statuses[f"/static/{'x' * 300}"] == 404 and statuses["/static/x%00.js"] == 404
    assert {path: status for path, status in statuses.items() if status >= 500} == {}


def test_localhost_binds_both_loopback_addresses_and_the_wildcard_binds_all() -> None:
    local = sockets_of("localhost", 0)
    assert {listening.getsockname()[0] for listening in local} <= {"127.0.0.1", "::1"} and len(
        {listening.getsockname()[1] for listening in local}) == 1
    everywhere = sockets_of("0.0.0.0", 0)
    assert [listening.getsockname()[0] for listening in everywhere] == ["0.0.0.0"]
    for listening in (*local, *everywhere):
        listening.close()


@pytest.mark.parametrize(("host", "port"), [
    ("127.0.0.1", 99_999), ("127.0.0.1", -1), ("203.0.113.9", 0), ("no such host", 0), ("a" * 300, 0), ("x\0y", 0)])
def test_an_address_that_cannot_be_bound_is_refused(host: str, port: int) -> None:
    with pytest.raises(RequestError, match=f"port {port}"):
        sockets_of(host, port)
