"""What a server does wrong is one sentence; nothing of it is waited for without end, and no other host is asked."""

import re
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from engine.errors import CanopyError, ServerError
from engine.requests.rig_names import SERVER_KEY, from_hub, is_address, pair_of, server_address
from engine.servers import client as limits
from engine.servers.client import MAX_LINE_LENGTH, Client, events_of
from tests.engine.servers.scripted_server import DONE, Reply, chunk, event, says, scripted, streams
from tests.running import free_port

CERTIFICATE = Path(__file__).with_name("self_signed.pem")


def sentence(refused: pytest.ExceptionInfo[CanopyError]) -> str:
    """What it says, which is one sentence."""
    text = str(refused.value)
    assert "\n" not in text and text.endswith((".", "?")) and len(text) < 400
    return text


@pytest.mark.parametrize(("written", "address"), [
    ("http://127.0.0.1:8000", "http://127.0.0.1:8000"), (" HTTPS://host/ ", "https://host"),
    ("http://[::1]:8000/v1/", "http://[::1]:8000"), ("https://host/team/v1", "https://host/team"),
    ("http://host/v1/#org/model", "http://host#org/model"), ("http://host#", "http://host")])
def test_an_address_is_told_from_a_pair(written: str, address: str) -> None:
    assert is_address(written) and server_address(written) == address and from_hub(written) == ()
    with pytest.raises(CanopyError, match="the address of a server"):
        pair_of(written)


@pytest.mark.parametrize("written", ["demo", "a::b", "/data/target::ngram", "ftp://host", "httpx://host"])
def test_other_names_are_no_addresses(written: str) -> None:
    assert not is_address(written)


@pytest.mark.parametrize("written", [
    "http://ada:secret@host", "http://secret@host", "http://host?key=secret", "http://",
    "http://host:99999", "http://host name", "http://[::1", "http://host/\r\nX: 1"])
def test_an_address_that_is_none_or_holds_a_secret_is_refused(written: str) -> None:
    with pytest.raises(CanopyError) as refused:
        server_address(written)
    assert "secret" not in sentence(refused) and SERVER_KEY in str(refused.value) or "http://HOST" in str(refused.value)


def test_a_server_that_is_down() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServerError, match=f"Nobody answers at {address}; start the") as refused:
        Client(address).ask("/v1/models")
    sentence(refused)


@contextmanager
def speaking_tls(script: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of its own certificate, which passes everything on to the scripted one."""
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


def test_what_is_wrong_with_tls_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with scripted(models=says('{"data": []}')) as script, speaking_tls(script, monkeypatch) as address:
        with pytest.raises(ServerError, match="certificate") as refused:
            Client(address).ask("/v1/models")
        assert address in sentence(refused) and "SSL_CERT_FILE" in str(refused.value)
        with pytest.raises(ServerError, match="TLS") as refused:
            Client(script.address.replace("http:", "https:")).ask("/v1/models")
        assert "http://" in sentence(refused)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert Client(address).ask("/v1/models") == {"data": []}
    for wrong in (tmp_path / "none.pem", tmp_path):
        monkeypatch.setenv("SSL_CERT_FILE", str(wrong))
        with pytest.raises(ServerError, match=re.escape(str(wrong))) as refused:
            Client(address)
        sentence(refused)


def greet(handler: BaseHTTPRequestHandler) -> None:
    """Answer in another protocol."""
    handler.wfile.write(b"SSH-2.0-x\r\n")


REFUSALS: list[tuple[Reply, str]] = [
    (says("{}", status=401), "wants a key (401); put it into the environment as CANOPY_SERVER_KEY"),
    (says("{}", status=403), "forbids it (403)"), (says("{}", status=404), "has no /v1/models (404)"),
    (says("<html>", "text/html", status=429), "has more to do than it takes (429); try again later"),
    (says('{"error": {"message": "bad\\n news"}}', status=400), "refuses (status 400). It says: 'bad news'."),
    (says('{"detail": "x"}', status=422), "It says: 'x'"), (says("\xff", status=500), "failed (status 500)."),
    (says("", status=302, Location="http://user:pw@elsewhere.test:1/x"), "sends on to elsewhere.test:1, which is not"),
    (says("", status=307, Location="/v2/models"), "sends on to another path, which is not followed"),
    (says("", status=301, Location="http://a]b/"), "sends on to another path, which is not followed"),
    (says("", status=204), "refuses (status 204)"),
    (says("<html>", "text/html"), "answers /v1/models as 'text/html'; application/json is expected"),
    (says("{}", Content_Encoding="gzip"), "packed as 'gzip'"),
    (says('{"data": ['), "which is not complete JSON"), (says("[" * 100_000), "which is not complete JSON"),
    (says("7"), "The server sent '7'; an object is expected"), (says(b"\xff\xfe{}"), "not complete JSON"),
    (says(b" " * (limits.ANSWER_BYTES + 1)), "sent more than 4 MiB"),
    (says("{}", Content_Length="900"), "broke its answer off"),
    (greet, "broke its answer off, or does not speak HTTP"),
    (lambda handler: handler.connection.close(), "broke its answer off, or does not speak HTTP")]


@pytest.mark.parametrize(("reply", "words"), REFUSALS, ids=[words[:24] for _, words in REFUSALS])
def test_what_a_server_does_wrong_is_one_sentence(reply: Reply, words: str) -> None:
    with scripted(models=reply) as script:
        with pytest.raises(ServerError, match=re.escape(words)) as refused:
            Client(script.address).ask("/v1/models")
        assert "pw" not in sentence(refused) and len(script.asked) == 1, "and nothing was asked a second time"


def taken(script: Any, seconds: float = limits.STREAM_SECONDS) -> list[Any]:
    with Client(script.address).stream("/v1/chat/completions", {}, seconds) as events:
        return [event for event in events if event is not None]


def test_a_stream_in_any_pieces_is_its_events() -> None:
    whole = b": a comment\n\nevent: x\r\n" + event(a=1) + b"data:" + event(b="\u2028é")[6:] + DONE
    for cut in (1, 7, len(whole)):
        parts = [whole[place:place + cut] for place in range(0, len(whole), cut)]
        with scripted(chat=streams(*parts)) as script:
            assert taken(script) == [{"a": 1}, {"b": "\u2028é"}]


@pytest.mark.parametrize("end", [b"", b"data: ", b'data: {"usage"', DONE])
def test_an_answer_that_was_finished_needs_no_other_end(end: bytes) -> None:
    last = chunk("b", finish_reason="stop")
    with scripted(chat=streams(chunk("a"), last, event(usage={}), end)) as script:
        assert [event.get("usage") for event in taken(script)] == [None, None, {}]


@pytest.mark.parametrize(("parts", "words"), [
    ((event(a=1),), "breaks off in the middle"), ((event(a=1), b'data: {"choices'), "which is not complete JSON"),
    ((b"data: 7\n\n", DONE), "an object is expected"), ((), "breaks off in the middle"),
    ((b"data: " + b"x" * 2**21,), "a line of more than 1 MiB"), ((b"x\n" * 9,), "breaks off in the middle")])
def test_a_stream_that_is_none_ends_in_a_sentence(parts: tuple[bytes, ...], words: str) -> None:
    with scripted(chat=streams(*parts)) as script, pytest.raises(ServerError, match=re.escape(words)) as refused:
        taken(script)
    sentence(refused)


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
LATE, SILENT = "had not begun its answer after 0.4 s", "said nothing for 0.4 s"
ENDLESS = "had not finished its answer after 1 s"


def drips(beginning: bytes, piece: bytes, seconds: float = 0.1) -> Reply:
    """Raw bytes, and then a piece every so often, until nobody listens any more."""
    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(beginning)
        with suppress(OSError):
            while True:
                handler.wfile.write(piece)
                time.sleep(seconds)
    return say


SLOW = {
    "silent": (lambda _: time.sleep(3), LATE), "silent after its headers": (drips(PLAIN, b"", 0.1), SILENT),
    "a header line at a time": (drips(b"HTTP/1.1 200 OK\r\n", b"X-Y: z\r\n"), LATE),
    "endless 100 Continue": (drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), LATE),
    "a flood of 100 Continue": (drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500, 0), LATE),
    "one byte at a time": (drips(PLAIN, b"x"), ENDLESS), "comments": (drips(PLAIN, b": still here\n"), ENDLESS),
    "events of nothing": (drips(PLAIN, b'data: {"choices": []}\n\n'), ENDLESS),
    "an endless chunk extension": (drips(CHUNKED + b"5;", b"x"), SILENT),
    "chunks of one byte with extensions": (drips(CHUNKED, b"1;" + b"x" * 999 + b"\r\nx\r\n"), ENDLESS),
    "endless trailers": (drips(CHUNKED + b"0\r\n", b"X-Y: z\r\n"), SILENT)}


@pytest.mark.parametrize(("reply", "words"), SLOW.values(), ids=SLOW)
def test_a_server_that_drips_is_not_waited_for_without_end(
        reply: Reply, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SILENT_SECONDS", 0.4)
    with scripted(chat=reply, models=reply) as script:
        began = time.monotonic()
        with pytest.raises(ServerError, match=words) as refused:
            taken(script, seconds=1.0)
        assert time.monotonic() - began < 30 and sentence(refused)
        with pytest.raises(ServerError):
            Client(script.address).ask("/v1/models", seconds=1.0)
        assert time.monotonic() - began < 60


def test_a_short_question_has_one_deadline_for_headers_and_answer() -> None:
    with scripted(models=drips(b"HTTP/1.1 200 OK\r\n", b"X-Y: z\r\n")) as script:
        began = time.monotonic()
        with pytest.raises(ServerError, match="not finished its answer after 0.5 s"):
            Client(script.address).ask("/v1/models", seconds=0.5)
        assert time.monotonic() - began < 30


def test_leaving_a_stream_ends_it_at_once_whatever_the_server_does() -> None:
    gone = Event()

    def say(handler: BaseHTTPRequestHandler) -> None:
        drips(PLAIN, b"x", 0.05)(handler)
        gone.set()

    with scripted(chat=say) as script:
        began = time.monotonic()
        with Client(script.address).stream("/v1/chat/completions", {}) as events:
            assert next(events) is None
        assert time.monotonic() - began < 30
        assert gone.wait(5), "and the server's work on it"


def test_an_endless_line_in_pieces_of_a_byte_takes_no_longer_than_its_bytes() -> None:
    began = time.monotonic()
    with pytest.raises(ServerError, match="a line of more than 1 MiB"):
        list(events_of(b"x" for _ in range(MAX_LINE_LENGTH + 1)))
    assert time.monotonic() - began < 20


def test_the_key_goes_to_the_server_alone_and_stands_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY, "sk-1234")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # would be asked instead
    echoed = says('{"error": "the key sk-1234 is wrong"}', status=400)
    with scripted(models=says('{"data": []}'), version=echoed) as script:
        client = Client(script.address)
        client.ask("/v1/models")
        assert script.asked[0][1]["Authorization"] == "Bearer sk-1234"
        with pytest.raises(ServerError) as refused:
            client.ask("/version")
        assert "sk-1234" not in str(refused.value) and "the key … is wrong" in str(refused.value)
    monkeypatch.setenv(SERVER_KEY, "line\nbreak")
    with pytest.raises(ServerError, match="characters that a header may not have"):
        Client("http://127.0.0.1:9").ask("/v1/models")


def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVER_KEY, raising=False)
    with scripted(chat=streams(chunk("a"), DONE)) as script:
        taken(script)
        assert "Authorization" not in script.asked[0][1]
