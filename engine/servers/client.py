"""Ask a server over HTTP, within limits of time and size, and only at the given address.

    client = Client("http://127.0.0.1:8000")
    client.text("/metrics")
    with client.stream("/v1/chat/completions", body) as events: ...

Redirects are refused, proxies and passwords of the environment are not used, and the key in ``SERVER_KEY`` is sent to
that address only. Every failure is a ServerError of one sentence.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from threading import Thread
from types import MappingProxyType
from typing import Any

import httpx
from httpx_sse import EventSource

from engine.errors import ServerError
from engine.machine.files import cause_of
from engine.requests.rig_names import MODEL_MARK, SERVER_KEY, server_address

CONNECT_SECONDS = 5.0
SILENT_SECONDS = 60.0  # until an answer begins, and between two pieces of it
ANSWER_SECONDS, STREAM_SECONDS = 20.0, 1800.0
ANSWER_BYTES, STREAM_BYTES = 4 * 2**20, 256 * 2**20
MAX_WAITING = 16  # events that are held until they are taken
MAX_QUOTE_LENGTH = 200  # characters of what a server says itself
LOOK_SECONDS = 0.2
JSON, EVENTS, TEXT = "application/json", "text/event-stream", "text/plain"
LAST = "[DONE]"
REFUSALS: Mapping[int, str] = MappingProxyType({
    401: f"wants a key (401); put it into the environment as {SERVER_KEY} and start the page again.",
    403: f"forbids it (403); look at the key in {SERVER_KEY}.",
    404: "has no {} (404); is it an OpenAI-compatible server, and is its address whole?",
    429: "has more to do than it takes (429); try again later."})

Events = Iterator[str | None]


class Client:
    """One server. Several threads may ask at once. ``model`` is the one that the address names, if any."""

    def __init__(self, address: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.address, _, self.model = server_address(address).partition(MODEL_MARK)
        self._key = os.environ.get(SERVER_KEY, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise ServerError(f"The key in {SERVER_KEY} has characters that a header may not have; check it.")
        self._loop = _loop()
        self._http = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **({"Authorization": f"Bearer {self._key}"} if self._key else {})},
            timeout=httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS), limits=httpx.Limits(keepalive_expiry=5.0),
            trust_env=False, verify=_authorities(), transport=transport)

    def text(self, path: str, body: Mapping[str, Any] | None = None, kind: str = TEXT,
             seconds: float = ANSWER_SECONDS) -> str:
        """Return the text at a path; post ``body`` to it if there is one."""
        async def read() -> str:
            async with self._answer(path, body, kind, seconds) as response:
                return bytes(await response.aread()).decode("utf8", "replace")

        return asyncio.run_coroutine_threadsafe(read(), self._loop).result()

    @contextmanager
    def stream(self, path: str, body: Mapping[str, Any], seconds: float = STREAM_SECONDS) -> Iterator[Events]:
        """Give the data of each event as it arrives, and None at least every ``LOOK_SECONDS``, so that the caller can
        look whether it is still wanted. Leaving the block ends the stream and the server's work on it, at once."""
        arrived: SimpleQueue[str | None] = SimpleQueue()  # None is behind the last
        room = asyncio.Semaphore(MAX_WAITING)

        async def read() -> None:
            async with self._answer(path, body, EVENTS, seconds) as response:
                async for event in EventSource(response).aiter_sse():
                    response.stream.held = 0
                    if event.data == LAST:
                        return
                    await room.acquire()
                    arrived.put(event.data)
            raise ServerError("The server's answer breaks off in the middle; what came until then is kept.")

        def events() -> Events:
            while True:
                try:
                    event = arrived.get(timeout=LOOK_SECONDS)
                except Empty:
                    yield None
                    continue
                if event is None:
                    return work.result()  # raises what went wrong
                self._loop.call_soon_threadsafe(room.release)
                yield event or None

        work = asyncio.run_coroutine_threadsafe(read(), self._loop)
        work.add_done_callback(lambda _: arrived.put(None))
        try:
            yield events()
        finally:
            work.cancel()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result()

    @asynccontextmanager
    async def _answer(self, path: str, body: Mapping[str, Any] | None, kind: str,
                      seconds: float) -> AsyncIterator[Any]:
        """The response, of that content type, whose body is ``BoundedBytes``; ServerError for any other."""
        content = None if body is None else json.dumps(body).encode()
        request = self._http.build_request("POST" if content else "GET", self.address + path, content=content,
                                           headers={"Accept": kind, **({"Content-Type": JSON} if content else {})})
        try:
            async with asyncio.timeout(seconds):
                async with asyncio.timeout(SILENT_SECONDS):
                    response = await self._http.send(request, stream=True)
                try:
                    response.stream = BoundedBytes(response.stream)
                    await self._check(path, response, kind)
                    yield response
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise ServerError(f"{self.address} {_failure(error, seconds)}") from error

    async def _check(self, path: str, response: httpx.Response, kind: str) -> None:
        """Raise ServerError, with the way out, if this is not an answer of that content type."""
        status, fault = response.status_code, ""
        packed = response.headers.get("content-encoding", "identity").lower()
        sent = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.next_request:
            host = response.next_request.url.host[:80]
            fault = f"sends on to {host}, which is not followed; name that address itself if it is the server."
        elif status in REFUSALS:
            fault = REFUSALS[status].format(path)
        elif status != 200:
            words = words_of(await response.aread()).replace(self._key or "\0", "…")
            fault = f"{'refuses' if status < 500 else 'failed'} (status {status}).{words}"
        elif packed != "identity":
            fault = f"sends its answer packed as {packed[:20]!r}, which was not asked for."
        elif kind not in (TEXT, sent):
            fault = (f"answers {path} as {sent[:40] or 'nothing named'!r}; {kind} is expected: name the address of an "
                     "OpenAI-compatible server.")
        if fault:
            raise ServerError(f"{self.address} {fault}")
        response.encoding = "utf8"  # whatever it says: a charset such as zlib would unpack without limit


class BoundedBytes(httpx.AsyncByteStream):
    """The body of a response within limits: ``held`` counts what its reader holds, which sets it back to 0 at the end
    of each event."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self.size = self.held = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            self.size, self.held = self.size + len(piece), self.held + len(piece)
            if self.held > ANSWER_BYTES or self.size > STREAM_BYTES:
                raise ServerError(f"The server sent more than {ANSWER_BYTES / 2**20:g} MiB as one answer or event, or "
                                  f"{STREAM_BYTES / 2**20:g} MiB in all, the most that is taken.")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


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


def _failure(error: Exception, seconds: float) -> str:
    """What went wrong on the network, with the way out; the server's address comes before it."""
    if "SSL" in str(error):
        return (f"cannot be asked over TLS ({error}): name the file of its certificate's authority in the environment "
                "as SSL_CERT_FILE, or write http:// if it has none.")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return "does not answer; start the server, or name another address."
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return (f"took too long: it has {min(SILENT_SECONDS, seconds):g} s to begin or to go on with its answer, "
                f"{seconds:g} s in all; it may be too busy, or stuck.")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return "broke its answer off, or does not speak HTTP; what came until then is kept."
    return f"cannot be asked ({type(error).__name__}); look at the address again."


def words_of(data: bytes | str) -> str:
    """The message of a server's refusal as a sentence, on one line, after a blank; empty if there is none."""
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    words = " ".join(value.split()) if isinstance(value, str) else ""
    return f" It says: {words[:MAX_QUOTE_LENGTH]!r}." if words else ""
