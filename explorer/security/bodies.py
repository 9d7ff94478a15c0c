"""Checks request bodies: their content type, size and number of JSON values; the login's form too.

JSON of a few bytes a value becomes some eighty bytes a value in memory, and it is read where all requests are answered,
so values are counted and not only bytes. Files come in pieces (``explorer/uploads.py``). Few large bodies are held at
once. Gradio checks calls too, but answers what does not fit with an internal error.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope

if TYPE_CHECKING:
    import gradio as gr

API, LOGIN, RUNS = "/gradio_api/", "/login", "/canopy/runs"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
SHORT_CALLS = ("/gradio_api/cancel", "/gradio_api/reset")  # these take names alone
MAX_SHORT_BYTES = 16 * 2**10  # of these calls and of forms
COMMON_BODY_BYTES = 64 * 2**10  # a body above it is a large one
MAX_BYTES = 2 * 2**20  # the longest prompt and conversation with every character escaped, or a piece of a file
MAX_JSON_VALUES = 50_000  # reading them three times takes 0.05 s
MAX_CONCURRENT_LARGE = 16  # large bodies in memory at once
BODY_TIMEOUT_SECONDS = 60.0  # a body has to arrive within it
SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_DIGITS = 400  # of an integer; Python takes a second for a thousand integers of 4,200 digits


@dataclass
class Refusal(Exception):  # noqa: N818 - an answer on its way
    """A body failed a check; the gate answers with its message."""

    status: int
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self, programs: bool) -> Response:
        """Answer as the page's own functions do, {"detail": …}, or as text for a person who typed an address."""
        if programs:
            return JSONResponse({"detail": self.sentence}, self.status, dict(self.headers))
        return PlainTextResponse(self.sentence + "\n", self.status, dict(self.headers))


class Bodies:
    """Reads bodies before anybody else does, and hands them on. ``check`` is told path and body of every call, and
    raises Refusal."""

    def __init__(self, check: Callable[[str, bytes], None] | None = None) -> None:
        self._check = check
        self._large = asyncio.Semaphore(MAX_CONCURRENT_LARGE)

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive) -> AsyncIterator[Receive]:
        """Read and check the body; yield a ``receive`` that hands it on. Raises Refusal."""
        path, headers = scope["path"], Headers(scope=scope)
        max_bytes = _largest(path, headers)
        large = _length(headers, max_bytes) > COMMON_BODY_BYTES
        if large and self._large.locked():
            raise Refusal(503, "Other large requests are being read just now; send yours again in a minute.",
                          {"Retry-After": "20"})
        async with AsyncExitStack() as stack:
            if large:
                await stack.enter_async_context(self._large)
            body = await _read_body(receive, max_bytes if large else min(max_bytes, COMMON_BODY_BYTES))
            if self._check and not is_login(path):
                self._check(path, body)
            unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive_body() -> Message:
                """Return the body in one message, then wait for the end of the connection. By then the app has read the
                body, so other large ones may be read."""
                if unread:
                    return unread.pop()
                await stack.aclose()
                return await receive()
            yield receive_body


def is_login(path: str) -> bool:
    """Return whether a request to that path is an attempt to log in."""
    return path.rstrip("/") == LOGIN


def _largest(path: str, headers: Headers) -> int:
    """Return the limit for a body of this kind; Refusal for a wrong content type."""
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if is_login(path):
        if kind not in FORMS:
            raise Refusal(415, f"A login is a form, and this request is {kind[:60] or 'of no type'}.")
        return MAX_SHORT_BYTES
    if kind != "application/json":
        raise Refusal(415, f"The request's content type is {kind[:60] or 'missing'}; only application/json is taken.")
    return MAX_SHORT_BYTES if path.rstrip("/") in SHORT_CALLS else MAX_BYTES


def _length(headers: Headers, max_bytes: int) -> int:
    """Return the announced length, else ``max_bytes``; Refusal if it is larger."""
    if "content-encoding" in headers:
        raise Refusal(415, "The request's body is packed; send it as it is.")
    text = headers.get("content-length")
    if text is None:
        return max_bytes
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) <= max_bytes):
        raise _too_large(max_bytes)
    return int(text)


def _too_large(max_bytes: int) -> Refusal:
    size = f"{max_bytes // 2**20} MiB" if max_bytes >= 2**20 else f"{max_bytes // 2**10} KiB"
    return Refusal(413, f"The request is larger than {size}, which is the most that is taken.")


async def _read_body(receive: Receive, max_bytes: int) -> bytes:
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            while more:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
                more = message["type"] != "http.disconnect" and bool(message.get("more_body"))
    except TimeoutError as error:
        raise Refusal(408, f"The request's body did not arrive within {BODY_TIMEOUT_SECONDS:.0f} s.") from error
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_JSON_VALUES:
        raise Refusal(413, f"The request has more than {MAX_JSON_VALUES:,} values, which is the most that is taken.")
    return bytes(body)


class Calls:
    """Checks the calls of a page's events, named functions and components, which Gradio would answer with an internal
    error."""

    def __init__(self, page: gr.Blocks) -> None:
        functions = {number: function for number, function in page.fns.items() if function.fn is not None}
        self._inputs: dict[Any, int] = {number: len(function.inputs) for number, function in functions.items()}
        self._inputs |= {function.api_name: sum(not getattr(part, "skip_api", False) for part in function.inputs)
                         for function in functions.values() if function.api_visibility == "public"}
        self._server_functions = {(number, function.__name__) for number, part in page.blocks.items()
                                  for function in getattr(part, "server_fns", ())}

    def check(self, path: str, body: bytes) -> None:
        """Raise Refusal if the body of a POST is no JSON object that can be answered."""
        value = json_object(body)
        where, _, name = path.removeprefix(API).strip("/").rpartition("/")
        if name == "component_server":
            part, function = value.get("component_id"), value.get("fn_name")
            if type(part) is not int or type(function) is not str or (part, function) not in self._server_functions:
                raise Refusal(404, f"The part {_seen(part)} of the page has no function {_seen(function)}.")
        if where not in ("call", "run") and (where, name) != ("queue", "join"):
            return
        function, data = value.get("fn_index", name), value.get("data")
        if type(function) not in (int, str) or function not in self._inputs:
            raise Refusal(404, f"There is no function {_seen(function)}.")
        if not isinstance(data, list) or len(data) < self._inputs[function]:
            raise Refusal(422, f"The data of the call are {_seen(data)}; they have to be a list of "
                               f"{self._inputs[function]} values.")


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a body as a JSON object of valid UTF-8 and finite numbers. Refuses a session name that is too long, since
    Gradio would remember it."""
    try:
        value = json.loads(body, parse_int=_whole_number)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "The request's body is no JSON of whole characters and finite numbers in UTF-8, of at most "
                      f"{MAX_DIGITS} digits each.") from error
    if not isinstance(value, dict):
        raise Refusal(422, f"The request's body is {_seen(value)}; it has to be an object with named fields.")
    session = value.get("session_hash")
    if session is not None and not (isinstance(session, str) and SESSION.fullmatch(session)):
        raise Refusal(422, f"The session_hash is {_seen(session)}; it has to be 1 to 64 letters, digits, - and _.")
    return value


def _seen(value: Any) -> str:
    return ascii(value)[:40]


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
