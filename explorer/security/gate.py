"""One gate in front of every route: whose request this is, what it asks for, and what it brings.

A browser says with each request where it comes from (Origin, and Sec-Fetch-Site where the address is one that it
trusts). Other programs say neither; they are let in, as no website can make them ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explorer.security.bodies import LOGIN, Bodies, Refusal
from explorer.security.calls import API
from explorer.security.hosts import Hosts
from explorer.security.logins import Logins
from explorer.security.readers import KEY, Readers, impatient, stream_of

METHODS = ("GET", "HEAD", "POST")
PAGES = ("/", "/login_check", "/logout", "/config", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json",
         "/pwa_icon", "/openapi.json", LOGIN)
FOLDERS = ("/assets/", "/static/", "/svelte/")
ASKED = ("info", "openapi.json", "app_id", "user", "login_check", "startup-events", "theme.css", "queue/", "call/",
         "run/", "cancel", "reset", "component_server", "heartbeat/")  # below API; what ends in / and what lies below
SAID: Mapping[str, str] = MappingProxyType({
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "SAMEORIGIN",
    "Content-Security-Policy": "frame-ancestors 'self'; form-action 'self'; base-uri 'self'; object-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin"})
LONGEST_PATH, LONGEST_STEP = 1024, 255  # bytes: of a path, and of a name in it, which is as long as a file's may be
GRANTED = ("access-control-allow-origin", "access-control-allow-credentials")  # to pages of others; nobody has any


@dataclass
class Guard:
    """What the gate goes by, and what it remembers. ``admits``: whether who asks has logged in, where that is needed;
    nothing that anybody else sends is read."""

    hosts: Hosts
    bodies: Bodies = field(default_factory=Bodies)
    logins: Logins = field(default_factory=Logins)
    readers: Readers = field(default_factory=Readers)
    admits: Callable[[Scope], bool] = lambda _: True


class Gate:
    """An ASGI middleware; see the top of the file."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self.app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it with what is wrong with it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            try:
                await self._admit(scope, receive, _with_headers(send))
            except Refusal as refusal:
                await refusal.response(scope["path"].startswith(API))(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        check_host(self._guard.hosts, headers)
        check_origin(self._guard.hosts, scope, headers)
        check_path(scope)
        scope = {**scope, "headers": _forwarded(self._guard.hosts, scope["headers"])}
        scope[KEY] = self._guard.readers
        if (stream := stream_of(scope, dict(QueryParams(scope["query_string"])))) is not None:
            with self._guard.readers.reading(stream), suppress(TimeoutError, RuntimeError):
                await self.app(scope, receive, impatient(send))  # a RuntimeError: what was said in the stream already
            return
        if scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        if scope["path"].rstrip("/") != LOGIN and not self._guard.admits(scope):
            raise Refusal(401, "Log in first: this Canopy asks for a name and a password.")
        async with self._guard.bodies.taken(scope, receive) as body:
            if scope["path"].rstrip("/") == LOGIN:
                send = _counted(self._guard.logins, (scope.get("client") or ("", 0))[0], send)
            await self.app(scope, body, send)


def check_host(hosts: Hosts, headers: Headers) -> None:
    """The request has to be meant for this server, by its own name and by that which a proxy was asked for."""
    named = headers.getlist("host")
    passed = [name.strip() for name in headers.get("x-forwarded-host", "").split(",") if hosts.proxies and name]
    strange = [name for name in named + passed if not hosts.answers_to(name)]
    if len(named) != 1 or strange:
        seen = repr(strange[0][:60]) if strange else f"{len(named)} names at once"
        raise Refusal(403, f"This Canopy does not answer to {seen}. It answers to {', '.join(sorted(hosts.names))}; "
                           "whoever runs it can add a name with --allow-host.")


def check_origin(hosts: Hosts, scope: Scope, headers: Headers) -> None:
    """The request has to come from the server's own page, from a program, or from a person who opens the page."""
    origins, site = headers.getlist("origin"), headers.get("sec-fetch-site", "same-origin")
    if any(not hosts.is_own(origin, headers["host"]) for origin in origins):
        raise Refusal(403, f"Another website ({origins[0][:80]}) asked this Canopy for something; only its own page "
                           "may.")
    opened = scope["method"] == "GET" and scope["path"] == "/" and (
        headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    typed = scope["method"] in ("GET", "HEAD") and site == "none"
    if site != "same-origin" and not opened and not typed:
        raise Refusal(403, "Another website asked this Canopy for something; only its own page may. A link may lead "
                           "to the page itself.")


def check_path(scope: Scope) -> None:
    """Only what the page and the API for programs use is open: whatever else Gradio can do stays shut."""
    path = scope["path"]
    if scope["method"] not in METHODS:
        raise Refusal(405, f"The method {scope['method'][:20]} is not answered; {', '.join(METHODS)} are.",
                      {"Allow": ", ".join(METHODS)})
    below = path.removeprefix(API).rstrip("/") if path.startswith(API) else None
    is_open = (path if path == "/" else path.rstrip("/")) in PAGES or path.startswith(FOLDERS)
    if below is not None:
        is_open = any(below == start or (start.endswith("/") and below.startswith(start)) for start in ASKED)
    if not is_open or not _can_be_named(path):
        raise Refusal(404, f"There is nothing at {path[:80]!r}.")


def _can_be_named(path: str) -> bool:
    """Whether a disk can hold something of that name; where it cannot, Gradio would look for it and fail."""
    encoded = path.encode("utf8", "replace")
    steps = encoded.split(b"/")
    return (len(encoded) <= LONGEST_PATH and max(map(len, steps)) <= LONGEST_STEP
            and b"\0" not in encoded and b".." not in steps)


def _forwarded(hosts: Hosts, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers without what only a proxy may say of where it stands, where there is none."""
    if hosts.proxies:
        return headers
    return [(name, value) for name, value in headers if not name.startswith((b"x-forwarded-", b"forwarded"))]


def _with_headers(send: Send) -> Send:
    """Every answer is for the server's own pages alone."""
    async def said(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name in GRANTED:
                del headers[name]
            headers.update(SAID)
            message["headers"] = [(name, _lax(value) if name == b"set-cookie" else value)
                                  for name, value in message["headers"]]
        await send(message)
    return said


def _lax(cookie: bytes) -> bytes:
    """A cookie that is not sent along where another website asks."""
    parts = [part.strip() for part in cookie.split(b";")]
    kept = [part for part in parts if not part.lower().startswith(b"samesite")]
    return b"; ".join([*kept, b"SameSite=Lax"])


def _counted(logins: Logins, address: str, send: Send) -> Send:
    """A login is one attempt of its address, until it turns out to be right."""
    if (seconds := logins.wait_seconds(address)) > 0:
        raise Refusal(429, f"Too many logins have failed; try again in {seconds:.0f} s.",
                      {"Retry-After": f"{seconds:.0f}"})
    logins.attempt(address)

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            logins.succeeded(address)
        await send(message)
    return watched
