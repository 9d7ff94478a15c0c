"""One gate in front of every route: whose request this is, what it asks for, and what it brings.

A browser says with each request where it comes from (Origin, and Sec-Fetch-Site if the address is one that it
trusts). Other programs say neither; they are let in, as no website can make them ask. A website can make a browser ask
a server on this machine, and can let its own name lead here (DNS rebinding); it can forge neither the Host nor the
Origin that the browser sends. Starlette's TrustedHostMiddleware looks at names alone: it cannot let in every plain
address, which nobody can rebind, nor say in a sentence what is allowed.
"""

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from types import MappingProxyType
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.errors import RequestError
from explorer.security.askers import PROXY_KEY, READERS_KEY, Logins, Readers, client_of, impatient, stream_of
from explorer.security.bodies import API, LOGIN, RUNS, Bodies, Refusal, is_login

HTTP_METHODS = ("GET", "HEAD", "POST")
PAGES = ("/", "/login_check", "/logout", "/config", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json",
         "/pwa_icon", "/openapi.json", LOGIN, RUNS)
FOLDERS = ("/assets/", "/static/", "/svelte/", f"{RUNS}/")
ASKED = ("info", "openapi.json", "app_id", "user", "login_check", "startup-events", "theme.css", "queue/", "call/",
         "run/", "cancel", "reset", "component_server", "heartbeat/")  # below API; what ends in / and what lies below
UNSAFE = "call/v2/"  # answers a call that does not fit with an internal error (gradio 6.31)
POLICY = "Content-Security-Policy"
ANSWER_HEADERS: Mapping[str, str] = MappingProxyType({
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
    POLICY: "frame-ancestors 'self'; form-action 'self'; base-uri 'self'; object-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin"})
MAX_PATH_LENGTH, MAX_STEP_LENGTH = 1024, 255  # bytes: of a path, and of a name in it, as for files
CORS_HEADERS = ("access-control-allow-origin", "access-control-allow-credentials")  # never sent
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
PORTS = {"http": 80, "https": 443}
NAME = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::(?P<port>\d{1,5}))?")

Address = tuple[str, int | None]  # a name or an address, in lower case and without brackets; a port if one is said


def address_of(text: str) -> Address | None:
    """``example.org:80`` or ``[::1]:80`` in its two parts; None if it is neither."""
    match = NAME.fullmatch(text)
    if not match or int(match["port"] or 0) > 65535:
        return None
    name = (match["name"] or "").lower().rstrip(".") or (match["address"] or "").lower()
    return (name, int(match["port"]) if match["port"] else None) if name else None


def origin_of(text: str) -> Address | None:
    """The address of a page, always with its port; None for ``null`` and for all that is no website."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    address = address_of(parts.netloc)
    if address is None or parts.scheme not in PORTS or parts.path:
        return None
    return address[0], address[1] or PORTS[parts.scheme]


@dataclass(frozen=True)
class Hosts:
    """The names that a server answers to: ``names`` are those of the machine; ``addresses``: whether any plain address
    will do, as it has to if the server listens on all; ``proxies`` are the addresses at which others pass requests
    on to this server; ``frames`` are the origins whose pages may show it in a frame."""

    names: frozenset[str]
    addresses: bool = False
    proxies: tuple[Address, ...] = ()
    frames: tuple[str, ...] = ()

    def answers_to(self, host: str) -> bool:
        if (address := address_of(host)) is None:
            return False
        name, port = address
        if name in self.names or any(name == known and asked in (port, None) for known, asked in self.proxies):
            return True
        with suppress(ValueError):
            return self.addresses and bool(ip_address(name))
        return False

    def is_of_this_server(self, origin: str, host: str) -> bool:
        """Whether a page of that Origin is one of this server, asked as ``host``."""
        page, asked = origin_of(origin), address_of(host)
        if page is None or asked is None:
            return False
        usual = PORTS[urlsplit(origin).scheme]
        return page in [(name, port or usual) for name, port in (asked, *self.proxies)]


def hosts_of(listens_on: str, proxies: Sequence[Address] = (), frames: Sequence[str] = ()) -> Hosts:
    """The hosts of a server that listens on an address or a name, behind proxies at those addresses."""
    name = listens_on.strip("[]").lower()
    names = {name} if name not in (*LOOPBACK, *EVERYWHERE) else set(LOOPBACK)
    if name in EVERYWHERE:
        names.add(socket.gethostname().lower())
    return Hosts(frozenset(names), name in EVERYWHERE, tuple(proxies), tuple(frames))


def proxy_address(text: str) -> Address:
    """What ``--allow-host`` names; RequestError if it is no host."""
    if (address := address_of(text)) is None:
        raise RequestError(f"{text[:60]!r} is no host; name one as canopy.example.org or canopy.example.org:8443.")
    return address


def frame_origin(text: str) -> str:
    """What ``--allow-frame`` names; RequestError if it is no origin."""
    if origin_of(origin := text.removesuffix("/")) is None or set(origin) & set("?#"):
        raise RequestError(f"{text[:60]!r} is no origin; name one as https://huggingface.co.")
    return origin


class Gate:
    """An ASGI middleware; see the top of the file. ``check``: see ``Bodies``. ``admits``: whether who asks has logged
    in, if that is needed; nothing that anybody else sends is read."""

    def __init__(self, app: ASGIApp, hosts: Hosts, check: Callable[[str, bytes], None] | None = None,
                 admits: Callable[[Scope], bool] = lambda _: True) -> None:
        self.app = app
        self._hosts, self._admits = hosts, admits
        self._bodies, self._logins, self._readers = Bodies(check), Logins(), Readers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            try:
                await self._admit(scope, receive, self._with_headers(send))
            except Refusal as refusal:
                await refusal.response(scope["path"].startswith((API, RUNS)))(scope, receive, self._with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        check_host(self._hosts, headers)
        check_origin(self._hosts, scope, headers)
        check_path(scope)
        scope = {**scope, "headers": _without_forwarding(self._hosts, scope["headers"]), READERS_KEY: self._readers,
                 PROXY_KEY: bool(self._hosts.proxies)}
        if (stream := stream_of(scope)) is not None:
            with self._readers.reading(stream), suppress(TimeoutError, RuntimeError):
                await self.app(scope, receive, impatient(send))  # a RuntimeError: what was said in the stream already
            return
        of_runs, posts = scope["path"].startswith(RUNS), scope["method"] == "POST"
        logs_in = is_login(scope["path"])
        if (of_runs or posts and not logs_in) and not self._admits(scope):  # of all else that is read, Gradio asks
            raise Refusal(401, "Log in first: this Canopy asks for a name and a password.")
        with suppress(*([TimeoutError] if of_runs else [])):
            send = impatient(send) if of_runs else self._count_login(scope, send) if posts and logs_in else send
            async with self._bodies.read(scope, receive) if posts else nullcontext(receive) as body:
                await self.app(scope, body, send)

    def _with_headers(self, send: Send) -> Send:
        """Keep an answer for the server's own pages, and its cookies out of requests from other sites."""
        frames = self._hosts.frames

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in CORS_HEADERS:
                    del headers[name]
                headers.update(ANSWER_HEADERS)
                if frames:
                    headers[POLICY] = ANSWER_HEADERS[POLICY].replace("'self'", f"'self' {' '.join(frames)}", 1)
                else:
                    headers["X-Frame-Options"] = "SAMEORIGIN"  # for browsers that do not know the policy
                message["headers"] = [(name, _lax(value) if name == b"set-cookie" else value)
                                      for name, value in message["headers"]]
            await send(message)
        return send_with_headers

    def _count_login(self, scope: Scope, send: Send) -> Send:
        """A login is one attempt of its address, until it turns out to be right."""
        address = client_of(scope)
        if (seconds := self._logins.wait_seconds(address)) > 0:
            raise Refusal(429, f"Too many logins have failed; try again in {seconds:.0f} s.",
                          {"Retry-After": f"{seconds:.0f}"})
        self._logins.attempt(address)

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                self._logins.succeeded(address)
            await send(message)
        return send_and_count


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
    if any(not hosts.is_of_this_server(origin, headers["host"]) for origin in origins):
        raise Refusal(403, f"Another website ({origins[0][:80]}) asked this Canopy for something; only its own page "
                           "may.")
    opened = scope["method"] == "GET" and scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate" and (
        headers.get("sec-fetch-dest") in (("document", "iframe") if hosts.frames else ("document",)))
    typed = scope["method"] in ("GET", "HEAD") and site == "none"
    if site != "same-origin" and not opened and not typed:
        raise Refusal(403, "Another website asked this Canopy for something; only its own page may. A link may lead "
                           "to the page itself.")


def check_path(scope: Scope) -> None:
    """Only what the page and the API for programs use is open: whatever else Gradio can do stays shut."""
    path = scope["path"]
    methods = (*HTTP_METHODS, "DELETE") if path.startswith(RUNS) else HTTP_METHODS
    if scope["method"] not in methods:
        raise Refusal(405, f"The method {scope['method'][:20]} is not answered; {', '.join(methods)} are.",
                      {"Allow": ", ".join(methods)})
    if path.startswith(API):
        below = path.removeprefix(API).rstrip("/")
        is_open = any(below == start or (start.endswith("/") and below.startswith(start)) for start in ASKED)
        is_open &= not below.startswith(UNSAFE)
    else:
        is_open = (path if path == "/" else path.rstrip("/")) in PAGES or path.startswith(FOLDERS)
    if not is_open or not _can_be_named(path):
        raise Refusal(404, f"There is nothing at {path[:80]!r}.")


def _can_be_named(path: str) -> bool:
    """Whether a disk can hold something of that name; if it cannot, Gradio would look for it and fail."""
    encoded = path.encode("utf8", "replace")
    steps = encoded.split(b"/")
    return (len(encoded) <= MAX_PATH_LENGTH and max(map(len, steps)) <= MAX_STEP_LENGTH
            and b"\0" not in encoded and b".." not in steps)


def _without_forwarding(hosts: Hosts, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Drop the X-Forwarded-* headers of a request that did not come through a trusted proxy."""
    if hosts.proxies:
        return headers
    return [(name, value) for name, value in headers if not name.startswith((b"x-forwarded-", b"forwarded"))]


def _lax(cookie: bytes) -> bytes:
    parts = [part.strip() for part in cookie.split(b";")]
    return b"; ".join([*(part for part in parts if not part.lower().startswith(b"samesite")), b"SameSite=Lax"])
