"""What a request may bring: JSON that says it is JSON, or the login's form, within bounds that count what it costs.

JSON of a few bytes a value becomes some eighty bytes a value in memory, and it is read where all requests are answered,
so values are counted and not only bytes. Files come in pieces (``explorer/uploads.py``). Few large bodies are held at
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope


@dataclass
class Refusal(Exception):  # noqa: N818 - an answer on its way
    """Raised where a check fails, caught where the answer is sent."""

    status: int
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self, programs: bool) -> Response:
        """As the page's own functions answer, {"detail": …}, or as text for a person who typed an address."""
        if programs:
            return JSONResponse({"detail": self.sentence}, self.status, dict(self.headers))
        return PlainTextResponse(self.sentence + "\n", self.status, dict(self.headers))


LOGIN = "/login"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
SHORT = ("/gradio_api/cancel", "/gradio_api/reset")  # these take names alone
LARGEST_SHORT = 16 * 2**10  # bytes, of a form too
LARGEST_COMMON = 64 * 2**10  # bytes
LARGEST = 2 * 2**20  # bytes: the longest prompt and conversation, every sign of them escaped; a piece of a file
MOST_VALUES = 50_000  # of a JSON body: reading them three times takes 0.05 s
MOST_LARGE = 16  # bodies above the common size that are held at once
PATIENCE_SECONDS = 60.0  # for a body to arrive


class Bodies:
    """Reads bodies before anybody else does, and hands them on."""

    def __init__(self, check: Callable[[str, bytes], None] | None = None) -> None:
        """``check`` is told path and body of every call, and raises Refusal."""
        self._check = check
        self._large = asyncio.Semaphore(MOST_LARGE)

    @asynccontextmanager
    async def taken(self, scope: Scope, receive: Receive) -> AsyncIterator[Receive]:
        """The whole body, checked, as something to receive it from. Raises Refusal."""
        headers = Headers(scope=scope)
        most = _largest(scope["path"], headers)
        length = _length(headers, most)
        if length <= LARGEST_COMMON:
            yield await self._checked(scope, receive, min(most, LARGEST_COMMON))
            return
        if self._large.locked():
            raise Refusal(503, "Other large requests are being read just now; send yours again in a minute.",
                          {"Retry-After": "20"})
        async with self._large:
            yield await self._checked(scope, receive, most)

    async def _checked(self, scope: Scope, receive: Receive, most: int) -> Receive:
        body = await _whole(receive, most)
        if self._check and not _is_login(scope["path"]):
            self._check(scope["path"], body)
        return _again(body, receive)


def _is_login(path: str) -> bool:
    return path.rstrip("/") == LOGIN


def _largest(path: str, headers: Headers) -> int:
    """The most bytes of a body of that kind."""
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if _is_login(path):
        if kind not in FORMS:
            raise Refusal(415, f"A login is a form, and this request is {kind[:60] or 'of no type'}.")
        return LARGEST_SHORT
    if kind != "application/json":
        raise Refusal(415, f"The request's content type is {kind[:60] or 'missing'}; only application/json is taken.")
    return LARGEST_SHORT if path.rstrip("/") in SHORT else LARGEST


def _length(headers: Headers, most: int) -> int:
    """The bytes that are announced; one sent in pieces may be as large as any."""
    if "content-encoding" in headers:
        raise Refusal(415, "The request's body is packed; send it as it is.")
    text = headers.get("content-length")
    length = most if text is None else int(text) if text.isascii() and text.isdigit() and len(text) < 16 else most + 1
    if length > most:
        raise _too_large(most)
    return length


def _too_large(most: int) -> Refusal:
    size = f"{most // 2**20} MiB" if most >= 2**20 else f"{most // 2**10} KiB"
    return Refusal(413, f"The request is larger than {size}, which is the most that is taken.")


async def _whole(receive: Receive, most: int) -> bytes:
    pieces, size = [], 0
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                message = await receive()
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > most:
                    raise _too_large(most)
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    break
    except TimeoutError as error:
        raise Refusal(408, f"The request's body did not arrive within {PATIENCE_SECONDS:.0f} s.") from error
    body = b"".join(pieces)
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise Refusal(413, f"The request has more than {MOST_VALUES:,} values, which is the most that is taken.")
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """The body in one message; after it whatever comes, which is the end of the connection."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return waiting.pop() if waiting else await receive()
    return given
