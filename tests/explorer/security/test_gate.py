"""What the gate lets through to the app, and with what sentence it turns away the rest."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.errors import RequestError
from explorer.security import bodies
from explorer.security.gate import Gate, hosts_of, is_address, origin_of, place_of, proxy_place
from tests.running import completed

OWN = "http://127.0.0.1:7860"


async def answered(request: Request) -> Response:
    """What arrived."""
    made = JSONResponse({"path": request.url.path, "body": len(await request.body()),
                         "forwarded": request.headers.get("x-forwarded-host")},
                        400 if b"wrong" in await request.body() else 200,
                        {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true"})
    made.set_cookie("access", "1", httponly=True, samesite="none", secure=True)
    return made


def gate(*proxies: tuple[str, int | None]) -> Gate:
    """The gate in front of an app that answers everything."""
    app = Starlette(routes=[Route("/{path:path}", answered, methods=["GET", "HEAD", "POST", "PUT", "OPTIONS"])])
    return Gate(app, hosts_of("127.0.0.1", proxies))


def ask(through: Gate, method: str, path: str, /, **more: Any) -> httpx.Response:
    """One request, as a program sends it."""
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(through, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url=OWN) as client:
            return await client.request(method, path, **more)
    return completed(asked())


CALL = "/gradio_api/component_server"


def test_the_own_page_and_programs_get_through() -> None:
    through = gate()
    assert ask(through, "GET", "/").status_code == 200
    assert ask(through, "POST", CALL, json={}).status_code == 200
    own = {"Origin": OWN, "Sec-Fetch-Site": "same-origin"}
    assert ask(through, "POST", CALL, json={}, headers=own).status_code == 200
    assert ask(through, "GET", "/gradio_api/queue/data", headers=own).status_code == 200
    opened = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert ask(through, "GET", "/?run=abc", headers=opened).status_code == 200
    assert ask(through, "GET", "/config", headers={"Sec-Fetch-Site": "none"}).status_code == 200


@pytest.mark.parametrize(("method", "path", "headers"), [
    ("POST", CALL, {"Origin": "http://evil.example"}), ("POST", CALL, {"Origin": "null"}),
    ("POST", CALL, {"Origin": ""}), ("POST", CALL, {"Origin": "https://127.0.0.1:7860.evil.example"}),
    ("POST", CALL, {"Origin": "http://127.0.0.1:7861"}), ("POST", CALL, {"Origin": "http://localhost:7860"}),
    ("POST", CALL, {"Sec-Fetch-Site": "cross-site"}), ("POST", CALL, {"Sec-Fetch-Site": "same-site"}),
    ("POST", CALL, {"Sec-Fetch-Site": "none"}), ("POST", CALL, {"Origin": OWN, "Sec-Fetch-Site": "cross-site"}),
    ("OPTIONS", CALL, {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}),
    ("GET", "/config", {"Origin": "http://evil.example"}), ("GET", "/config", {"Sec-Fetch-Site": "cross-site"}),
    ("GET", "/logout", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
    ("GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
    ("GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}),
    ("GET", "/", {"Host": "evil.example"}), ("POST", CALL, {"Host": "evil.example", "Origin": "http://evil.example"})])
def test_other_websites_are_turned_away(method: str, path: str, headers: dict[str, str]) -> None:
    answer = ask(gate(), method, path, headers=headers, **({"json": {}} if method == "POST" else {}))
    assert answer.status_code == 403 and "Canopy" in answer.text
    assert "access-control-allow-origin" not in answer.headers and answer.headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize(("headers", "status"), [
    ({"Content-Type": "text/plain"}, 415), ({}, 415), ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415), ({"Content-Type": "application/json+x"}, 415),
    ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
    ({"Content-Type": "Application/JSON; charset=utf-8"}, 200)])
def test_a_body_has_to_say_that_it_is_json(headers: dict[str, str], status: int) -> None:
    assert ask(gate(), "POST", CALL, content=b"{}", headers=headers).status_code == status


@pytest.mark.parametrize("path", [
    *(f"/gradio_api/{name}" for name in (
        "upload", "proxy=http://x.hf.space/", "file=/etc/passwd", "vibe-code", "process_recording", "deep_link",
        "token", "run-history/buckets", "", "informed", "callx")),
    "/monitoring", "/docs", "//", "/x", "/assetsx"])
def test_what_the_page_does_not_use_is_shut(path: str) -> None:
    answer = ask(gate(), "GET", f"{OWN}{path}")
    assert answer.status_code == 404 and answer.text.rstrip('"}\n').endswith(".")


def test_other_methods_are_not_answered() -> None:
    assert ask(gate(), "PUT", "/").status_code == ask(gate(), "OPTIONS", CALL).status_code == 405


def test_bodies_are_bounded_by_bytes_and_by_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LARGEST", 3 * 2**20)
    as_json = {"Content-Type": "application/json"}

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(7):
            yield b"x" * 2**19

    assert ask(gate(), "POST", CALL, content=b'"' + b"x" * (5 * 2**19) + b'"', headers=as_json).status_code == 200
    for large in (b"x" * (3 * 2**20 + 1), pieces()):
        answer = ask(gate(), "POST", CALL, content=large, headers=as_json)
        assert answer.status_code == 413 and "larger than 3 MiB" in answer.text
    answer = ask(gate(), "POST", CALL, content=b"[" + b"[],[]," * 100_000, headers=as_json)
    assert answer.status_code == 413 and "50,000 values" in answer.text
    lying = ask(gate(), "POST", CALL, content=b"{}", headers={**as_json, "Content-Length": "9" * 30})
    assert lying.status_code == 413


def test_a_call_that_takes_a_name_may_not_bring_a_megabyte() -> None:
    as_json = {"Content-Type": "application/json"}
    for path, size, status in (("cancel", 17 * 2**10, 413), ("reset/", 17 * 2**10, 413), ("cancel", 2**13, 200),
                               ("queue/join", 2**20, 200), ("queue/join", 3 * 2**20, 413)):
        answer = ask(gate(), "POST", f"/gradio_api/{path}", content=b'"' + b"x" * size + b'"', headers=as_json)
        assert answer.status_code == status


def test_few_large_bodies_are_held_at_once() -> None:
    async def asked() -> list[int]:
        arrived = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b'"'
            await arrived.wait()
            yield b'"'

        transport = httpx.ASGITransport(gate(), client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url=OWN) as client:
            def post(content: Any) -> asyncio.Task[httpx.Response]:
                return asyncio.create_task(client.post(CALL, content=content,
                                                       headers={"Content-Type": "application/json"}))
            held = [post(slow()) for _ in range(bodies.MOST_LARGE)]
            await asyncio.sleep(0.05)
            over, small = await post(slow()), await post(b"{}")
            arrived.set()
            return [over.status_code, small.status_code, *[(await answer).status_code for answer in held],
                    (await post(slow())).status_code]
    assert completed(asked()) == [503, 200, *[200] * bodies.MOST_LARGE, 200]


def test_a_body_that_does_not_arrive_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE_SECONDS", 0.05)

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)
    answer = ask(gate(), "POST", CALL, content=stuck(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 408


def test_nothing_is_granted_to_others_and_the_cookie_stays_at_home() -> None:
    answer = ask(gate(), "GET", "/config", headers={"Origin": OWN})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    cookie = answer.headers["set-cookie"].lower()
    assert "samesite=lax" in cookie and "none" not in cookie and "httponly" in cookie and "secure" in cookie


def test_only_behind_a_proxy_is_believed_what_a_proxy_says() -> None:
    told = {"X-Forwarded-Host": "canopy.example"}
    assert ask(gate(), "GET", "/config", headers=told).json()["forwarded"] is None
    assert ask(gate(("canopy.example", None)), "GET", "/config", headers=told).json()["forwarded"] == "canopy.example"
    strange = {"X-Forwarded-Host": "evil.example"}
    assert ask(gate(("canopy.example", None)), "GET", "/config", headers=strange).status_code == 403


def test_logins_slow_down_after_failures() -> None:
    through = gate()
    statuses = [ask(through, "POST", "/login", data={"password": "wrong"}).status_code for _ in range(8)]
    assert statuses == [400] * 6 + [429] * 2
    answer = ask(through, "POST", "/login", data={"password": "right"})
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1 and "try again in" in answer.text
    assert ask(gate(), "POST", "/login", json={}).status_code == 415


def test_a_websocket_is_closed_at_once() -> None:
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)
    completed(gate()({"type": "websocket", "path": "/"}, None, send))  # type: ignore[arg-type]
    assert [message["type"] for message in said] == ["websocket.close"]


HERE = hosts_of("127.0.0.1")
ALL = hosts_of("0.0.0.0")
BEHIND = hosts_of("127.0.0.1", [("canopy.example", None), ("other.example", 8443)])


@pytest.mark.parametrize(("text", "place"), [
    ("localhost", ("localhost", None)), ("LocalHost.:7860", ("localhost", 7860)), ("[::1]:80", ("::1", 80)),
    ("[::1]", ("::1", None)), ("127.0.0.1:1", ("127.0.0.1", 1)), ("", None), (":80", None), ("[::1", None),
    ("::1", None), ("a b", None), ("a/b", None), ("user@host", None), ("host:99999", None), ("host:", None),
    ("host:8x", None), ("ho\u0455t", None), ("[]:80", None), ("a" * 300, None), ("host\n", None)])
def test_a_host_in_its_parts(text: str, place: object) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize(("text", "place"), [
    ("http://a", ("a", 80)), ("https://A:8443", ("a", 8443)), ("http://[::1]:7860", ("::1", 7860)), ("null", None),
    ("", None), ("file://", None), ("http://", None), ("http://a/b", None), ("ftp://a", None), ("http://[::1", None),
    ("http://u@a", None), ("chrome-extension://abc", None)])
def test_an_origin_in_its_parts(text: str, place: object) -> None:
    assert origin_of(text) == place


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "localhost:7860", "[::1]:7860", "LOCALHOST", "localhost."])
def test_this_machine_answers_to_its_own_names(host: str) -> None:
    assert HERE.answers_to(host)


@pytest.mark.parametrize("host", [
    "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.5:7860", "evil-localhost", "",
    "127.0.0.1@evil.example", "2130706433", "0.0.0.0:7860", "[::]:7860", "127.1"])
def test_it_answers_to_no_other(host: str) -> None:
    assert not HERE.answers_to(host)


def test_a_server_for_all_answers_to_plain_addresses_and_to_no_strange_name() -> None:
    assert ALL.answers_to("192.168.1.5:7860") and ALL.answers_to("[fd00::2]:80") and ALL.answers_to("localhost:1")
    assert not ALL.answers_to("evil.example") and not ALL.answers_to("1.2.3.4.evil.example")
    assert hosts_of("192.168.1.5").answers_to("192.168.1.5:7860")
    assert not hosts_of("192.168.1.5").answers_to("192.168.1.6:7860")
    assert is_address("::1") and not is_address("localhost") and not is_address("1.2.3")


@pytest.mark.parametrize(("origin", "host", "own"), [
    ("http://127.0.0.1:7860", "127.0.0.1:7860", True), ("http://localhost", "localhost", True),
    ("http://localhost:80", "localhost", True), ("http://[::1]:7860", "[::1]:7860", True),
    ("http://127.0.0.1:7861", "127.0.0.1:7860", False), ("http://localhost:7860", "127.0.0.1:7860", False),
    ("null", "127.0.0.1:7860", False), ("http://evil.example", "127.0.0.1:7860", False),
    ("http://evil.example:7860", "[::1]:7860", False), ("http://127.0.0.1:7860.evil.example", "127.0.0.1:7860", False)])
def test_only_its_own_pages_are_its_own(origin: str, host: str, own: bool) -> None:
    assert HERE.is_own(origin, host) is own


def test_a_proxy_may_pass_on_what_its_name_is_asked() -> None:
    assert BEHIND.answers_to("canopy.example") and BEHIND.answers_to("canopy.example:443")
    assert BEHIND.answers_to("other.example:8443") and not BEHIND.answers_to("other.example:1")
    assert BEHIND.is_own("https://canopy.example", "127.0.0.1:7860")  # a proxy that names the server, not itself
    assert BEHIND.is_own("https://other.example:8443", "127.0.0.1:7860")
    assert not BEHIND.is_own("https://canopy.example:9", "127.0.0.1:7860")
    assert not BEHIND.is_own("https://evil.example", "canopy.example")
    assert not HERE.answers_to("canopy.example")


def test_what_is_no_host_cannot_be_allowed() -> None:
    assert proxy_place("Canopy.Example:8443") == ("canopy.example", 8443)
    for text in ("", "https://canopy.example", "*", "a b"):
        with pytest.raises(RequestError, match="no host"):
            proxy_place(text)
