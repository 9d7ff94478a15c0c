"""Each error of a server becomes one sentence, no read waits without end, and no other host is contacted."""

import re
import ssl
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from engine.errors import CanopyError, ServerError
from engine.requests.rig_names import SERVER_KEY, from_hub, is_address, parse_rig, server_address
from engine.servers import client as limits
from engine.servers.client import JSON, MAX_EVENT_BYTES, Client
from tests.engine.servers.scripted_server import (
    CHAT,
    DONE,
    Reply,
    Script,
    chunk,
    drips,
    event,
    offline_client,
    says,
    scripted,
    streams,
)
from tests.running import free_port

CERTIFICATE = Path(__file__).with_name("self_signed.pem")


def sentence(refused: pytest.ExceptionInfo[CanopyError]) -> str:
    """Return the error's text, which must be one sentence."""
    text = str(refused.value)
    assert text.isprintable() and text.endswith((".", "?")) and len(text) < 400
    return text


def received_events(client: Client, seconds: float = 60.0) -> list[str]:
    """Return the events of the client's stream."""
    with client.stream(CHAT, {}, seconds) as events:
        return [event for event in events if event is not None]


def models(address: str, seconds: float = 20.0) -> str:
    return Client(address).text("/v1/models", kind=JSON, seconds=seconds)


@pytest.mark.parametrize(("written", "address"), [
    ("http://127.0.0.1:8000", "http://127.0.0.1:8000"), (" HTTPS://host/ ", "https://host"),
    ("http://[::1]:8000/v1/", "http://[::1]:8000"), ("https://host/team/v1", "https://host/team"),
    ("http://host/v1/#org/model", "http://host#org/model"), ("http://host#", "http://host")])
def test_an_address_is_not_taken_for_a_pair(written: str, address: str) -> None:
    assert is_address(written) and server_address(written) == address and from_hub(written) == ()
    with pytest.raises(CanopyError, match="address"):
        parse_rig(written)


@pytest.mark.parametrize("written", ["demo", "a::b", "/data/target::ngram", "ftp://host", "httpx://host"])
def test_other_names_are_not_addresses(written: str) -> None:
    assert not is_address(written)


@pytest.mark.parametrize("written", [
    "http://ada:secret@host", "http://secret@host", "http://host?key=secret", "http://",
    "http://host:99999", "http://host name", "http://[::1", "http://host/\r\nX: 1"])
def test_an_invalid_address_or_one_with_a_secret_is_refused(written: str) -> None:
    with pytest.raises(CanopyError, match=f"http://HOST|{SERVER_KEY}") as refused:
        server_address(written)
    assert "secret" not in sentence(refused)


@contextmanager
def tls_server(script: Script) -> Iterator[str]:
    """Yield the address of a TLS server with its own certificate that forwards to the scripted one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    class Passing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            script.replies[self.path](self)

    with HTTPServer(("127.0.0.1", 0), Passing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_errors_of_tls_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with scripted(models=says("{}")) as script, tls_server(script) as address:
        with pytest.raises(ServerError, match=f"{address}.*certificate.*SSL_CERT_FILE") as refused:
            models(address)
        sentence(refused)
        with pytest.raises(ServerError, match="TLS.*http://") as refused:
            models(script.address.replace("http:", "https:"))
        sentence(refused)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert models(address) == "{}"
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path))
    with pytest.raises(ServerError, match=re.escape(str(tmp_path))):
        Client(address)


@pytest.mark.parametrize(("reply", "named"), [
    (says("{}", status=401), SERVER_KEY), (says("{}", status=403), "403"), (says("{}", status=404), "/v1/models"),
    (says("<html>", "text/html", status=429), "429"),
    (says('{"error": {"message": "bad\\n news"}}', status=400), "400.*'bad news'"),
    (says('{"detail": "x"}', status=422), "'x'"), (says("\xff", status=500), "500"), (says("", status=204), "204"),
    (says("", status=302, Location="http://user:pw@elsewhere.test:1/x"), "elsewhere.test"),
    (says("", status=307, Location="/v2/models"), "127.0.0.1"),
    (says("", status=301, Location="http://a]b/"), "a%5Db"),
    (says("<html>", "text/html"), "text/html.*application/json"), (says("{}", Content_Encoding="gzip"), "gzip"),
    (says(b" " * (MAX_EVENT_BYTES + 1)), "4 MiB"), (says("{}", Content_Length="900"), "127.0.0.1"),
    (lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n"), "HTTP"),
    (lambda handler: handler.connection.close(), "127.0.0.1")])
def test_an_error_of_a_server_becomes_one_sentence(reply: Reply, named: str) -> None:
    with scripted(models=reply) as script:
        with pytest.raises(ServerError, match=named) as refused:
            models(script.address)
        assert "pw" not in sentence(refused) and len(script.asked) == 1, "there is no second request"


def test_a_server_that_is_down_is_named() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServerError, match=address) as refused:
        models(address)
    sentence(refused)


def test_events_arrive_in_any_pieces_and_in_order() -> None:
    whole = b": hello\r\n\r\n" + event(a=1) + b"data:\n\nevent: x\ndata: {\"b\": 2}\n\nid: 7\n\n" + DONE + event(c=3)
    for size in (1, 3, len(whole)):
        parts = [whole[start:start + size] for start in range(0, len(whole), size)]
        with scripted(chat=streams(*parts, kind="text/event-stream; charset=zlib")) as script:
            assert received_events(Client(script.address)) == ['{"a": 1}', '{"b": 2}']


@pytest.mark.parametrize("parts", [(), (event(a=1),), (b"x\n" * 9,), (b'data: {"choices',)])
def test_an_interrupted_stream_is_an_error(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(ServerError) as refused:
        received_events(offline_client({CHAT: b"".join(parts)}))
    sentence(refused)


@pytest.mark.parametrize("piece", [b"x", b"data: x\n", b":\n"])
def test_an_event_without_an_end_is_buffered_up_to_a_limit(piece: bytes) -> None:
    tracemalloc.start()
    with scripted(chat=streams(piece * (MAX_EVENT_BYTES // len(piece) + 2**17))) as script, \
            pytest.raises(ServerError, match="MiB") as refused:
        received_events(Client(script.address))
    assert sentence(refused) and tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("reply", [
    lambda _: time.sleep(3), drips(PLAIN, b""), drips(b"HTTP/1.1 200 OK\r\n", b"X-Y: z\r\n"),
    drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500, 0),
    drips(PLAIN, b"x"), drips(PLAIN, b": still here\n"), drips(PLAIN, b'data: {"choices": []}\n\n'),
    drips(CHUNKED + b"5;", b"x"), drips(CHUNKED, b"1;" + b"x" * 999 + b"\r\nx\r\n"),
    drips(CHUNKED + b"0\r\n", b"X-Y: z\r\n")], ids=[
        "silent", "silent after its headers", "a header at a time", "100 Continue", "a flood of 100 Continue",
        "a byte at a time", "comments", "empty events", "a chunk extension", "chunk extensions", "trailers"])
def test_a_dripping_server_runs_into_the_timeout(reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "READ_TIMEOUT_SECONDS", 0.4)
    with scripted(chat=reply, models=reply) as script:
        began = time.monotonic()
        for ask in (lambda: received_events(Client(script.address), 1.0), lambda: models(script.address, 1.0)):
            with pytest.raises(ServerError) as refused:
                ask()
            assert script.address in sentence(refused)
        assert time.monotonic() - began < 60


def test_closing_a_stream_ends_it_at_once() -> None:
    gone = Event()
    with scripted(chat=drips(PLAIN, b"x", 0.05, gone.set)) as script:
        with Client(script.address).stream(CHAT, {}) as events:
            assert next(events) is None
        assert gone.wait(5), "the server notices it"


def test_the_key_is_sent_to_the_server_alone_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # a client that obeys it would fail
    wrong = says('{"error": "the key sk-1234 is wrong"}', status=400)
    with scripted(models=wrong, chat=streams(chunk("a"), DONE)) as script:
        monkeypatch.delenv(SERVER_KEY, raising=False)
        received_events(Client(script.address))
        monkeypatch.setenv(SERVER_KEY, "sk-1234")
        with pytest.raises(ServerError) as refused:
            models(script.address)
        assert [headers.get("Authorization") for _, headers, _ in script.asked] == [None, "Bearer sk-1234"]
        assert "sk-1234" not in sentence(refused)
    monkeypatch.setenv(SERVER_KEY, "line\nbreak")
    with pytest.raises(ServerError, match=SERVER_KEY):
        Client("http://127.0.0.1:9")
