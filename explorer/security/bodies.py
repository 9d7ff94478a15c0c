"""What a request may bring: JSON that says it is JSON, or the login's form, within bounds that count what it costs, and
calls of functions that the page has.

JSON of a few bytes a value becomes some eighty bytes a value in memory, and it is read where all requests are answered,
so values are counted and not only bytes. Files come in pieces (``explorer/uploads.py``). Few large bodies are held at
once. Gradio looks at calls too, but deep inside, and answers what does not fit with an internal error; and it keeps
whatever name a session has, however long.
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
SHORT = ("/gradio_api/cancel", "/gradio_api/reset")  # these take names alone
MAX_SHORT_BYTES = 16 * 2**10  # bytes, of a form too
COMMON_BODY_BYTES = 64 * 2**10
MAX_BYTES = 2 * 2**20  # bytes: the longest prompt and conversation, every sign of them escaped; a piece of a file
MAX_VALUES = 50_000  # of a JSON body: reading them three times takes 0.05 s
MAX_LARGE = 16  # bodies above the common size that are held at once
PATIENCE_SECONDS = 60.0  # for a body to arrive
SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_SHOWN_LENGTH = 40
MAX_DIGITS = 400  # of a whole number; Python takes a second for a thousand of 4,200


@dataclass
class Refusal(Exception):  # noqa: N818 - an answer on its way
    """Raised if a check fails, caught where the answer is sent."""

    status: int
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self, programs: bool) -> Response:
        """As the page's own functions answer, {"detail": …}, or as text for a person who typed an address."""
        if programs:
            return JSONResponse({"detail": self.sentence}, self.status, dict(self.headers))
        return PlainTextResponse(self.sentence + "\n", self.status, dict(self.headers))


class Bodies:
    """Reads bodies before anybody else does, and hands them on. ``check`` is told path and body of every call, and
    raises Refusal."""

    def __init__(self, check: Callable[[str, bytes], None] | None = None) -> None:
        self._check = check
        self._large = asyncio.Semaphore(MAX_LARGE)

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive) -> AsyncIterator[Receive]:
        """The whole body, checked, as something to receive it from. Raises Refusal."""
        path, headers = scope["path"], Headers(scope=scope)
        most = _largest(path, headers)
        large = _length(headers, most) > COMMON_BODY_BYTES
        if large and self._large.locked():
            raise Refusal(503, "Other large requests are being read just now; send yours again in a minute.",
                          {"Retry-After": "20"})
        async with AsyncExitStack() as held:
            if large:
                await held.enter_async_context(self._large)
            body = await _read_whole(receive, most if large else min(most, COMMON_BODY_BYTES))
            if self._check and not is_login(path):
                self._check(path, body)
            waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

            async def again() -> Message:
                """The body in one message; after it whatever comes, which is the end of the connection. Who asks for
                that has read the body, and may answer for minutes."""
                if waiting:
                    return waiting.pop()
                await held.aclose()
                return await receive()
            yield again


def is_login(path: str) -> bool:
    """Whether a request to that path is an attempt to log in."""
    return path.rstrip("/") == LOGIN


def _largest(path: str, headers: Headers) -> int:
    """The most bytes of a body of that kind."""
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if is_login(path):
        if kind not in FORMS:
            raise Refusal(415, f"A login is a form, and this request is {kind[:60] or 'of no type'}.")
        return MAX_SHORT_BYTES
    if kind != "application/json":
        raise Refusal(415, f"The request's content type is {kind[:60] or 'missing'}; only application/json is taken.")
    return MAX_SHORT_BYTES if path.rstrip("/") in SHORT else MAX_BYTES


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


async def _read_whole(receive: Receive, most: int) -> bytes:
    body, going_on = bytearray(), True
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while going_on:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > most:
                    raise _too_large(most)
                going_on = message["type"] != "http.disconnect" and bool(message.get("more_body"))
    except TimeoutError as error:
        raise Refusal(408, f"The request's body did not arrive within {PATIENCE_SECONDS:.0f} s.") from error
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise Refusal(413, f"The request has more than {MAX_VALUES:,} values, which is the most that is taken.")
    return bytes(body)


@dataclass(frozen=True)
class Function:
    """What a function takes: a number of values in a list, and how many of them a program sends; or values by name, and
    which of the names are required."""

    values: int
    given: int
    names: frozenset[str]
    needed: frozenset[str]


class Calls:
    """Checks every call of a page's functions: that the function exists, and that the number of values fits it."""

    def __init__(self, page: gr.Blocks) -> None:
        named = page.get_api_info(all_endpoints=True)["named_endpoints"]
        self._by_number = {number: _function(function, named) for number, function in page.fns.items()
                           if function.fn is not None}
        self._by_name = {function.api_name: self._by_number[number] for number, function in page.fns.items()
                         if number in self._by_number and f"/{function.api_name}" in named}
        self._of_parts = {(number, name) for number, part in page.blocks.items() for name in dir(part)
                          if getattr(getattr(part, name, None), "_is_server_fn", False)}

    def check(self, path: str, body: bytes) -> None:
        """Refusal if the body of a POST is no JSON object that can be answered."""
        value = _object(body)
        session = value.get("session_hash")
        if session is not None and not (isinstance(session, str) and SESSION.fullmatch(session)):
            raise Refusal(422, f"The session_hash is {_seen(session)}; it has to be 1 to 64 letters, digits, - and _.")
        where, _, name = path.removeprefix(API).strip("/").rpartition("/")
        if name == "component_server":
            self._check_part(value)
        elif where == "call/v2":
            _check_names(self._named(name), value)
        elif where == "call":
            _check_count(self._named(name).given, value)
        elif where == "run" or (where, name) == ("queue", "join"):
            _check_count(self._numbered(value, name).values, value)

    def _check_part(self, value: Mapping[str, Any]) -> None:
        number, name = value.get("component_id"), value.get("fn_name")
        if value.get("session_hash") is None or "data" not in value:
            raise Refusal(422, "The request lacks its session_hash or its data.")
        if type(number) is not int or type(name) is not str or (number, name) not in self._of_parts:
            raise Refusal(404, f"There is no function {_seen(name)} of a part {_seen(number)}.")

    def _numbered(self, value: Mapping[str, Any], name: str) -> Function:
        number = value.get("fn_index")
        if number is None and name != "join":
            return self._named(name)
        if type(number) is not int or number not in self._by_number:
            raise Refusal(404, f"There is no function {_seen(number)}.")
        return self._by_number[number]

    def _named(self, name: str) -> Function:
        if name not in self._by_name:
            raise Refusal(404, f"There is no function {_seen(name)}; there are {', '.join(sorted(self._by_name))}.")
        return self._by_name[name]


def _function(function: Any, named: Mapping[str, Any]) -> Function:
    parameters = named.get(f"/{function.api_name}", {"parameters": []})["parameters"]
    given = sum(not getattr(part, "skip_api", False) for part in function.inputs)
    names = frozenset(parameter["parameter_name"] for parameter in parameters)
    needed = frozenset(parameter["parameter_name"] for parameter in parameters
                       if not parameter["parameter_has_default"])
    return Function(len(function.inputs), given, names, needed)


def _object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is, in whole characters and finite numbers."""
    try:
        value = json.loads(body, parse_int=_whole_number)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "The request's body is no JSON of whole characters and finite numbers in UTF-8, of at most "
                      f"{MAX_DIGITS} digits each.") from error
    if not isinstance(value, dict):
        raise Refusal(422, f"The request's body is {_seen(value)}; it has to be an object with named fields.")
    return value


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _check_names(function: Function, value: Mapping[str, Any]) -> None:
    if unknown := sorted(set(value) - function.names):
        there = ", ".join(sorted(function.names))
        raise Refusal(422, f"There is no parameter {_seen(unknown[0])}; there are {there}.")
    if missing := sorted(function.needed - set(value)):
        raise Refusal(422, f"The parameter {missing[0]} is missing.")


def _check_count(count: int, value: Mapping[str, Any]) -> None:
    data = value.get("data")
    if not isinstance(data, list) or len(data) < count:
        seen = f"{len(data)} values" if isinstance(data, list) else _seen(data)
        raise Refusal(422, f"The data of the call are {seen}; they have to be a list of {count} values.")


def _seen(value: object) -> str:
    text = ascii(value) if not isinstance(value, dict | list) else type(value).__name__
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"
