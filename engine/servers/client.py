"""Asks a server over HTTP, within limits of time and size, and only at the given address.

    client = Client("http://127.0.0.1:8000")
    client.ask("/v1/models")                              # an object of JSON
    with client.stream("/v1/chat/completions", body) as events: ...

Every wait has a deadline: the connection, the whole of the headers, each piece of the body, and the answer as a whole.
Redirects are refused, proxies and passwords of the environment are not used, and the key in ``SERVER_KEY`` is sent to
that address only. Every failure is a ServerError of one sentence.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx

from engine.errors import ServerError
from engine.machine.files import cause_of
from engine.requests.rig_names import MODEL, SERVER_KEY, server_address
from engine.servers.kind import whole

CONNECT_SECONDS = 5.0
SILENT_SECONDS = 60.0  # the longest wait for the whole of an answer's headers, and for the next piece of it
ANSWER_SECONDS, STREAM_SECONDS = 20.0, 1800.0  # for a whole answer, for a whole stream, from the question on
ANSWER_BYTES, STREAM_BYTES, REFUSAL_BYTES = 4 * 2**20, 256 * 2**20, 64 * 2**10
MAX_LINE_LENGTH = 2**20  # bytes
MAX_QUOTE_LENGTH = 200  # characters of what a server says itself
MAX_CONNECTIONS = 20
MAX_PIECES = 16  # of an answer that are held until they are taken
LOOK_SECONDS = 0.2
JSON, EVENTS, TEXT = "application/json", "text/event-stream", "text/plain"
LAST = b"[DONE]"

Events = Iterator[Mapping[str, Any] | None]


class Client:
    """One server. Several threads may ask at once. ``model`` is the one that the address names, if any."""

    def __init__(self, address: str) -> None:
        self.address, _, self.model = server_address(address).partition(MODEL)
        self._key = os.environ.get(SERVER_KEY, "").strip()
        if not (self._key.isascii() and (self._key.isprintable() or not self._key)):
            raise ServerError(f"The key in {SERVER_KEY} has characters that a header may not have; check it.")
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._loop = _loop()
        self._http = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **key}, timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=5.0), trust_env=False,
            verify=_authorities())

    def ask(self, path: str, body: Mapping[str, Any] | None = None,
            seconds: float = ANSWER_SECONDS) -> Mapping[str, Any]:
        """The JSON object at a path; a ``body`` is posted to it."""
        with self._answer(path, body, seconds=seconds) as pieces:
            return _parsed(b"".join(pieces))

    def text(self, path: str) -> str:
        """The text at a path."""
        with self._answer(path, None, TEXT) as pieces:
            return b"".join(pieces).decode("utf8", "replace")

    @contextmanager
    def stream(self, path: str, body: Mapping[str, Any], seconds: float = STREAM_SECONDS) -> Iterator[Events]:
        """The events of a stream as they arrive, and None at least every ``LOOK_SECONDS``, so that whoever waits can
        look whether it is still wanted. Leaving the block ends the stream and the server's work on it, at once."""
        with self._answer(path, body, EVENTS, seconds, STREAM_BYTES) as pieces:
            yield events_of(pieces)

    def close(self) -> None:
        """Close its connections."""
        asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result()

    @contextmanager
    def _answer(self, path: str, body: Mapping[str, Any] | None, kind: str = JSON, seconds: float = ANSWER_SECONDS,
                most_bytes: int = ANSWER_BYTES) -> Iterator[Iterator[bytes]]:
        """The pieces of an answer of a content type, empty ones if nothing has come for ``LOOK_SECONDS``."""
        waiting: SimpleQueue[bytes | None] = SimpleQueue()  # None is behind the last
        room = asyncio.Semaphore(MAX_PIECES)
        late = f"{self.address} had not finished its answer after {seconds:g} s, which is the longest wait."

        async def fetch() -> None:
            try:
                async with _within(seconds, late), self._response(path, body, kind) as response:
                    async for piece in self._pieces(response, most_bytes):
                        await room.acquire()
                        waiting.put(piece)
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
                raise _unanswered(self.address, error) from error

        def taken() -> Iterator[bytes]:
            while (piece := _next(waiting)) is not None:
                if piece:
                    self._loop.call_soon_threadsafe(room.release)
                yield piece
            work.result()  # raises what went wrong

        work = asyncio.run_coroutine_threadsafe(fetch(), self._loop)
        work.add_done_callback(lambda _: waiting.put(None))
        try:
            yield taken()
        finally:
            work.cancel()

    @asynccontextmanager
    async def _response(self, path: str, body: Mapping[str, Any] | None, kind: str) -> AsyncIterator[httpx.Response]:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept": kind, **({"Content-Type": JSON} if content else {})}
        request = self._http.build_request("POST" if content else "GET", self.address + path, content=content,
                                           headers=headers)
        late = f"{self.address} had not begun its answer after {SILENT_SECONDS:g} s; it may be too busy, or stuck."
        async with _within(SILENT_SECONDS, late):
            response = await self._http.send(request, stream=True)
        try:
            if response.status_code != 200:
                data = [] if response.is_redirect else [piece async for piece in self._pieces(response, REFUSAL_BYTES)]
                content = b"".join(data)
                raise _refusal(self.address, path, response, content.replace(self._key.encode(), "…".encode())
                               if self._key else content)
            coded = response.headers.get("content-encoding", "identity")
            if coded.lower() != "identity":
                raise ServerError(f"{self.address} sends its answer packed as {coded[:20]!r}, which was not asked for.")
            seen = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind not in (TEXT, seen):
                raise ServerError(f"{self.address} answers {path} as {seen[:40] or 'nothing named'!r}; {kind} is "
                                  "expected: name the address of an OpenAI-compatible server.")
            yield response
        finally:
            await response.aclose()

    async def _pieces(self, response: httpx.Response, most_bytes: int) -> AsyncIterator[bytes]:
        pieces, size = response.aiter_raw(), 0
        late = f"{self.address} said nothing for {SILENT_SECONDS:g} s; it may be too busy, or stuck."
        while True:
            async with _within(SILENT_SECONDS, late):
                piece = await anext(pieces, None)
            if piece is None:
                return
            size += len(piece)
            if size > most_bytes:
                raise ServerError(f"{self.address} sent more than {most_bytes / 2**20:g} MiB, the most that is taken.")
            yield piece


def _authorities() -> ssl.SSLContext | bool:
    """Whom certificates are trusted from: the file in SSL_CERT_FILE, else httpx's own list."""
    if not (file := os.environ.get("SSL_CERT_FILE")):
        return True
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ValueError) as error:
        raise ServerError(f"No certificates can be read from SSL_CERT_FILE, {file[:200]!r} ({cause_of(error)})."
                          ) from error


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop for all servers, in a thread of its own: a wait in it can be ended from outside."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="servers", daemon=True).start()
    return loop


@asynccontextmanager
async def _within(seconds: float, late: str) -> AsyncIterator[None]:
    """ServerError with that sentence where the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise ServerError(late) from error


def _next(waiting: SimpleQueue[bytes | None]) -> bytes | None:
    try:
        return waiting.get(timeout=LOOK_SECONDS)
    except Empty:
        return b""


def events_of(pieces: Iterable[bytes]) -> Events:
    """The JSON object of every event, and None after every piece. ServerError if the stream breaks off before an
    answer is finished, or sends anything else. It takes time in proportion to the bytes, however small the pieces."""
    finished = False
    try:
        for event in _events(pieces):
            finished = finished or event is not None and _finishes(event)
            yield event
    except ServerError:
        if not finished:  # a text that has ended is whole without [DONE]
            raise


def _finishes(event: Mapping[str, Any]) -> bool:
    choices = event.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, Mapping) and choice.get("finish_reason") for choice in choices)


def _events(pieces: Iterable[bytes]) -> Events:
    line = bytearray()
    for piece in chain(pieces, (b"\n",)):
        beginning, *others = piece.split(b"\n")
        line += beginning
        for other in others:
            name, _, value = line.partition(b":")
            if name.strip() == b"data":  # else a comment, the name of an event, an empty line
                if value.strip() == LAST:
                    return
                yield _parsed(bytes(value))
            line = bytearray(other)
        if len(line) > MAX_LINE_LENGTH:
            raise ServerError(f"The server sent a line of more than {MAX_LINE_LENGTH // 2**20} MiB, which is too long.")
        yield None
    raise ServerError("The server's answer breaks off in the middle; what came until then is kept.")


def _parsed(data: bytes) -> Mapping[str, Any]:
    """The JSON object in these bytes; ServerError if they are anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ServerError(f"The server sent {_seen(data)}, which is not complete JSON.") from error
    if not isinstance(value, Mapping):
        raise ServerError(f"The server sent {_seen(data)}; an object is expected.")
    return value


def _seen(data: bytes) -> str:
    text = data.strip().decode("utf8", "replace")
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def _unanswered(address: str, error: Exception) -> ServerError:
    """The sentence for a network error."""
    cause: BaseException | None = error
    while cause and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ServerError(f"The certificate of {address} is not trusted ({cause.verify_message}); where it should be, "
                           "name the file of its authority in the environment as SSL_CERT_FILE.")
    if isinstance(cause, ssl.SSLError):
        return ServerError(f"{address} does not speak TLS as expected ({cause.reason or cause}); is it http:// there?")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return ServerError(f"Nobody answers at {address}; start the server, or name another address.")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return ServerError(f"{address} broke its answer off, or does not speak HTTP; what came until then is kept.")
    return ServerError(f"{address} cannot be asked ({type(error).__name__}); look at the address again.")


def _refusal(address: str, path: str, response: httpx.Response, body: bytes) -> ServerError:
    """The sentence for an answer whose status is not 200."""
    status = response.status_code
    if response.is_redirect:
        return ServerError(f"{address} sends on to {_host(response) or 'another path'}, which is not followed; name "
                           "that address itself if it is the server.")
    known = {
        401: f"wants a key (401); put it into the environment as {SERVER_KEY} and start the page again.",
        403: f"forbids it (403); look at the key in {SERVER_KEY}.",
        404: f"has no {path} (404); is it an OpenAI-compatible server, and is its address whole?",
        429: "has more to do than it takes (429); try again later."}
    if status in known:
        return ServerError(f"{address} {known[status]}")
    quoted = f" It says: {words!r}." if (words := _words_of(body)) else ""
    return ServerError(f"{address} {'refuses' if status < 500 else 'failed'} (status {status}).{quoted}")


def _host(response: httpx.Response) -> str:
    """The host that a redirect names, without a password; empty if it names none."""
    try:
        return urlsplit(str(response.headers.get("location", ""))).netloc.rpartition("@")[2][:80]
    except ValueError:
        return ""


def _words_of(data: bytes) -> str:
    """The server's own words, on one line."""
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    text = whole(" ".join(value.split())) if isinstance(value, str) else ""
    return text if len(text) <= MAX_QUOTE_LENGTH else f"{text[:MAX_QUOTE_LENGTH]}…"
