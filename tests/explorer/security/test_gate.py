"""Which requests the gate lets through to the app, and how it refuses the others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.errors import RequestError
from explorer.security import bodies
from explorer.security.gate import Address, Gate, frame_origin, hosts_of, proxy_address
from tests.running import completed

HERE = "http://127.0.0.1:7860"
AS_JSON = {"Content-Type": "application/json"}
CALL = "/gradio_api/component_server"
OPENED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


async def answer_all(request: Request) -> Response:
    """Answer with the size of the body, and with headers that the gate must restrict."""
    body = await request.body()
    answer = JSONResponse({"body": len(body), "forwarded": request.headers.get("x-forwarded-host")}, headers={
        "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true"})
    answer.set_cookie("access", "1", httponly=True, samesite="none", secure=True)
    return answer


def gate(*proxies: Address, frames: Sequence[str] = ()) -> Gate:
    """Return the gate in front of an app that answers everything."""
    app = Starlette(routes=[Route("/{path:path}", answer_all, methods=["GET", "HEAD", "POST", "PUT", "OPTIONS"])])
    return Gate(app, hosts_of("127.0.0.1", proxies, frames))


def client(through: Gate) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(through, client=("10.0.0.1", 1)), base_url=HERE)


def ask(method: str, path: str, /, through: Gate | None = None, **more: Any) -> httpx.Response:
    """Send one request as a program does."""
    async def asked() -> httpx.Response:
        async with client(through or gate()) as program:
            return await program.request(method, path, **more)
    return completed(asked())


@pytest.mark.parametrize(("method", "path", "headers"), [
    ("GET", "/", {}), ("POST", CALL, {}), ("POST", CALL, {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}),
    ("GET", "/gradio_api/queue/data", {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}),
    ("GET", "/?run=abc", OPENED), ("GET", "/config", {"Sec-Fetch-Site": "none"})])
def test_the_servers_own_page_and_programs_are_let_through(method: str, path: str, headers: dict[str, str]) -> None:
    answer = ask(method, path, headers=headers, json={} if method == "POST" else None)
    assert answer.status_code == 200 and not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    cookie = answer.headers["set-cookie"].lower()
    assert "samesite=lax" in cookie and "none" not in cookie and "httponly" in cookie and "secure" in cookie


@pytest.mark.parametrize(("method", "path", "headers"), [
    ("POST", CALL, {"Origin": "http://evil.example"}), ("POST", CALL, {"Origin": "null"}),
    ("POST", CALL, {"Origin": ""}), ("POST", CALL, {"Origin": "https://127.0.0.1:7860.evil.example"}),
    ("POST", CALL, {"Origin": "http://127.0.0.1:7861"}), ("POST", CALL, {"Origin": "http://localhost:7860"}),
    ("POST", CALL, {"Sec-Fetch-Site": "cross-site"}), ("POST", CALL, {"Sec-Fetch-Site": "same-site"}),
    ("POST", CALL, {"Sec-Fetch-Site": "none"}), ("POST", CALL, {"Origin": HERE, "Sec-Fetch-Site": "cross-site"}),
    ("OPTIONS", CALL, {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}),
    ("GET", "/config", {"Origin": "http://evil.example"}), ("GET", "/config", {"Sec-Fetch-Site": "cross-site"}),
    ("GET", "/logout", OPENED),
    ("GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
    ("GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}),
    ("GET", "/", {"Host": "evil.example"}), ("POST", CALL, {"Host": "evil.example", "Origin": "http://evil.example"})])
def test_other_websites_are_turned_away(method: str, path: str, headers: dict[str, str]) -> None:
    answer = ask(method, path, headers=headers, json={} if method == "POST" else None)
    assert answer.status_code == 403 and "Canopy" in answer.text
    assert "access-control-allow-origin" not in answer.headers and answer.headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize(("headers", "status"), [
    ({"Content-Type": "text/plain"}, 415), ({}, 415), ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415), ({"Content-Type": "application/json+x"}, 415),
    ({**AS_JSON, "Content-Encoding": "gzip"}, 415), ({**AS_JSON, "Content-Length": "9" * 30}, 413),
    ({"Content-Type": "Application/JSON; charset=utf-8"}, 200)])
def test_a_body_has_to_declare_json_and_its_length(headers: dict[str, str], status: int) -> None:
    assert ask("POST", CALL, content=b"{}", headers=headers).status_code == status


@pytest.mark.parametrize("path", [
    *(f"/gradio_api/{name}" for name in (
        "upload", "proxy=http://x.hf.space/", "file=/etc/passwd", "vibe-code", "process_recording", "deep_link",
        "token", "run-history/buckets", "", "informed", "callx")),
    "/monitoring", "/docs", "//", "/x", "/assetsx"])
def test_endpoints_that_the_page_does_not_use_are_closed(path: str) -> None:
    answer = ask("GET", f"{HERE}{path}")
    assert answer.status_code == 404 and answer.text.rstrip('"}\n').endswith(".")


def test_other_methods_are_not_answered() -> None:
    assert ask("PUT", "/").status_code == ask("OPTIONS", CALL).status_code == 405


def quoted(size: int) -> bytes:
    return b'"' + b"x" * size + b'"'


async def in_pieces() -> AsyncIterator[bytes]:
    for _ in range(7):
        yield b"x" * 2**19


@pytest.mark.parametrize(("path", "content", "refused"), [
    ("component_server", lambda: quoted(5 * 2**19), ""),
    ("component_server", lambda: b"x" * (3 * 2**20 + 1), "larger than 3 MiB"),
    ("component_server", in_pieces, "larger than 3 MiB"),
    ("component_server", lambda: b"[" + b"[],[]," * 100_000, "50,000 values"),
    ("queue/join", lambda: quoted(2**20), ""), ("queue/join", lambda: quoted(3 * 2**20), "larger than 3 MiB"),
    ("cancel", lambda: quoted(2**13), ""), ("cancel", lambda: quoted(17 * 2**10), "larger than 16 KiB"),
    ("reset/", lambda: quoted(17 * 2**10), "larger than 16 KiB")])
def test_bodies_are_limited_in_bytes_and_in_values(
        path: str, content: Any, refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_BYTES", 3 * 2**20)
    answer = ask("POST", f"/gradio_api/{path}", content=content(), headers=AS_JSON)
    assert answer.status_code == (413 if refused else 200) and refused in answer.text


def test_only_a_few_large_bodies_are_in_memory_at_once() -> None:
    async def asked() -> list[int]:
        arrived = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b'"'
            await arrived.wait()
            yield b'"'

        async with client(gate()) as program:
            def post(content: Any) -> asyncio.Task[httpx.Response]:
                return asyncio.create_task(program.post(CALL, content=content, headers=AS_JSON))
            held = [post(slow()) for _ in range(bodies.MAX_CONCURRENT_LARGE)]
            await asyncio.sleep(0.05)
            over, small = await post(slow()), await post(b"{}")
            arrived.set()
            return [over.status_code, small.status_code, *[(await answer).status_code for answer in held],
                    (await post(slow())).status_code]
    assert completed(asked()) == [503, 200, *[200] * bodies.MAX_CONCURRENT_LARGE, 200]


def test_a_body_that_does_not_arrive_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_TIMEOUT_SECONDS", 0.05)

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)
    assert ask("POST", CALL, content=stuck(), headers=AS_JSON).status_code == 408


def test_forwarded_headers_are_trusted_only_behind_a_proxy() -> None:
    behind, passed_on = gate(("canopy.example", None)), {"X-Forwarded-Host": "canopy.example"}
    assert ask("GET", "/config", headers=passed_on).json()["forwarded"] is None
    assert ask("GET", "/config", behind, headers=passed_on).json()["forwarded"] == "canopy.example"
    assert ask("GET", "/config", behind, headers={"X-Forwarded-Host": "evil.example"}).status_code == 403


def test_a_websocket_is_closed_at_once() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)
    completed(gate()({"type": "websocket", "path": "/"}, None, send))  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["websocket.close"]


PROXIES = [("canopy.example", None), ("other.example", 8443)]


@pytest.mark.parametrize(("listens_on", "proxies", "answers_to", "not_to"), [
    ("127.0.0.1", [], ["127.0.0.1:7860", "localhost:7860", "[::1]:7860", "LOCALHOST", "localhost."],
     ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.5:7860", "evil-localhost", "",
      "127.0.0.1@evil.example", "2130706433", "0.0.0.0:7860", "[::]:7860", "127.1", "canopy.example", ":80", "[::1",
      "::1", "a b", "localhost/b", "localhost:99999", "localhost:", "localhost:8x", "l\u043ecalhost", "localhost\n"]),
    ("0.0.0.0", [], ["192.168.1.5:7860", "[fd00::2]:80", "localhost:1"],
     ["evil.example", "1.2.3.4.evil.example", "1.2.3"]),
    ("192.168.1.5", [], ["192.168.1.5:7860"], ["192.168.1.6:7860"]),
    ("127.0.0.1", PROXIES, ["canopy.example", "canopy.example:443", "other.example:8443"], ["other.example:1"])])
def test_a_server_answers_only_to_its_own_names(
        listens_on: str, proxies: list[Address], answers_to: list[str], not_to: list[str]) -> None:
    hosts = hosts_of(listens_on, proxies)
    assert [host for host in (*answers_to, *not_to) if hosts.answers_to(host)] == answers_to


@pytest.mark.parametrize(("proxies", "origin", "host", "is_its_page"), [
    ([], "http://127.0.0.1:7860", "127.0.0.1:7860", True), ([], "http://localhost", "localhost", True),
    ([], "http://localhost:80", "localhost", True), ([], "http://[::1]:7860", "[::1]:7860", True),
    ([], "http://127.0.0.1:7861", "127.0.0.1:7860", False), ([], "http://localhost:7860", "127.0.0.1:7860", False),
    ([], "null", "127.0.0.1:7860", False), ([], "http://evil.example", "127.0.0.1:7860", False),
    ([], "http://evil.example:7860", "[::1]:7860", False),
    ([], "http://127.0.0.1:7860.evil.example", "127.0.0.1:7860", False), ([], "", "127.0.0.1:7860", False),
    ([], "file://", "127.0.0.1:7860", False), ([], "http://127.0.0.1:7860/b", "127.0.0.1:7860", False),
    ([], "ftp://127.0.0.1:7860", "127.0.0.1:7860", False), ([], "http://u@127.0.0.1:7860", "127.0.0.1:7860", False),
    (PROXIES, "https://canopy.example", "127.0.0.1:7860", True),  # the proxy sends the server's host, not its own
    (PROXIES, "https://other.example:8443", "127.0.0.1:7860", True),
    (PROXIES, "https://canopy.example:9", "127.0.0.1:7860", False),
    (PROXIES, "https://evil.example", "canopy.example", False)])
def test_other_origins_are_not_its_page(proxies: list[Address], origin: str, host: str, is_its_page: bool) -> None:
    assert hosts_of("127.0.0.1", proxies).is_of_this_server(origin, host) is is_its_page


FRAMED = {**OPENED, "Sec-Fetch-Dest": "iframe"}


def test_only_named_origins_may_show_the_page_in_a_frame() -> None:
    shut = ask("GET", "/", headers=FRAMED)
    assert shut.status_code == 403
    assert "frame-ancestors 'self';" in shut.headers["content-security-policy"]
    assert shut.headers["x-frame-options"] == "SAMEORIGIN"
    through = gate(frames=["https://huggingface.co", "http://blog.test:8080"])
    framed = ask("GET", "/?x=1", through, headers=FRAMED)
    assert framed.status_code == 200 and "x-frame-options" not in framed.headers
    policy = framed.headers["content-security-policy"]
    assert "frame-ancestors 'self' https://huggingface.co http://blog.test:8080;" in policy
    assert ask("POST", CALL, through, headers=FRAMED, json={}).status_code == 403
    assert ask("GET", "/config", through, headers=FRAMED).status_code == 403


@pytest.mark.parametrize(("read", "reason", "texts"), [
    (frame_origin, "no origin", ["", "huggingface.co", "https://", "https://a.test/path", "https://a.test?b", "null",
                                 "javascript:alert(1)", "https://a.test; script-src *", "https://a.test b.test", "*"]),
    (proxy_address, "no host", ["", "https://canopy.example", "*", "a b"])])
def test_flags_refuse_invalid_origins_and_hosts(read: Callable[[str], Any], reason: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(RequestError, match=reason):
            read(text)
