"""One gate in front of every route. It checks each request's Host, Origin, path and body.

A browser says with each request where it comes from: in Origin, and in Sec-Fetch-Site if it trusts the address.
Programs send neither header. They are allowed, because no website can send requests through them. A website can make a
browser send requests to a server on this machine, and can let its own name resolve to it (DNS rebinding). It can forge
neither the Host nor the Origin that the browser sends. Starlette's TrustedHostMiddleware cannot allow every IP address,
which nobody can rebind, and does not say what is allowed.
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
from explorer.security.bodies import API, LOGIN, RUNS, Bodies, Refusal, is_login
from explorer.security.clients import PROXY_KEY, READERS_KEY, Logins, Readers, client_of, stream_of, with_send_timeout

HTTP_METHODS = ("GET", "HEAD", "POST")
EXACT_ROUTES = ("/", "/login_check", "/logout", "/config", "/theme.css", "/favicon.ico", "/robots.txt",
                "/manifest.json", "/pwa_icon", "/openapi.json", LOGIN, RUNS)
ROUTE_PREFIXES = ("/assets/", "/static/", "/svelte/", f"{RUNS}/")
API_ROUTES = ("info", "openapi.json", "app_id", "user", "login_check", "startup-events", "theme.css", "queue/", "call/",
              "run/", "cancel", "reset", "component_server", "heartbeat/")  # below API; a final / includes all below it
BLOCKED_API_ROUTE = "call/v2/"  # it answers an invalid call with an internal error (gradio 6.31)
POLICY = "Content-Security-Policy"
ANSWER_HEADERS: Mapping[str, str] = MappingProxyType({
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
    POLICY: "frame-ancestors 'self'; form-action 'self'; base-uri 'self'; object-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin"})
MAX_PATH_LENGTH, MAX_SEGMENT_LENGTH = 1024, 255  # bytes, as file systems allow
CORS_HEADERS = ("access-control-allow-origin", "access-control-allow-credentials")  # never sent
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
PORTS = {"http": 80, "https": 443}
NAME = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::(?P<port>\d{1,5}))?")

Address = tuple[str, int | None]  # a host name or IP address, in lower case and without brackets; its port, if named


def address_of(text: str) -> Address | None:
    """Split ``example.org:80`` or ``[::1]:80`` into host and port; return None if it is neither."""
    match = NAME.fullmatch(text)
    if not match or int(match["port"] or 0) > 65535:
        return None
    name = (match["name"] or "").lower().rstrip(".") or (match["address"] or "").lower()
    return (name, int(match["port"]) if match["port"] else None) if name else None


def origin_of(text: str) -> Address | None:
    """Return the host and port of an Origin header; None for ``null`` and anything else that is no website."""
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
    """Which Host headers are accepted, and which pages may frame this one."""

    names: frozenset[str]  # of this machine
    any_ip_address: bool = False  # set when the server listens on all interfaces
    proxies: tuple[Address, ...] = ()  # public addresses of proxies that pass requests on to this server
    frames: tuple[str, ...] = ()  # origins whose pages may show this one in a frame

    def answers_to(self, host: str) -> bool:
        if (address := address_of(host)) is None:
            return False
        name, port = address
        if name in self.names or any(
                name == proxy_host and proxy_port in (port, None) for proxy_host, proxy_port in self.proxies):
            return True
        with suppress(ValueError):
            return self.any_ip_address and bool(ip_address(name))
        return False

    def is_of_this_server(self, origin: str, host: str) -> bool:
        """Return whether ``origin`` is this server's own; ``host`` is the request's Host header."""
        page, own = origin_of(origin), address_of(host)
        if page is None or own is None:
            return False
        default_port = PORTS[urlsplit(origin).scheme]
        return page in [(name, port or default_port) for name, port in (own, *self.proxies)]


def hosts_of(listens_on: str, proxies: Sequence[Address] = (), frames: Sequence[str] = ()) -> Hosts:
    """Return the hosts of a server that listens on a name or IP address, behind these proxies."""
    name = listens_on.strip("[]").lower()
    names = {name} if name not in (*LOOPBACK, *EVERYWHERE) else set(LOOPBACK)
    if name in EVERYWHERE:
        names.add(socket.gethostname().lower())
    return Hosts(frozenset(names), name in EVERYWHERE, tuple(proxies), tuple(frames))


def proxy_address(text: str) -> Address:
    """Parse the value of ``--allow-host``; RequestError if it is no host."""
    if (address := address_of(text)) is None:
        raise RequestError(f"{text[:60]!r} is no host; name one as canopy.example.org or canopy.example.org:8443.")
    return address


def frame_origin(text: str) -> str:
    """Parse the value of ``--allow-frame``; RequestError if it is no origin."""
    if origin_of(origin := text.removesuffix("/")) is None or set(origin) & set("?#"):
        raise RequestError(f"{text[:60]!r} is no origin; name one as https://huggingface.co.")
    return origin


class Gate:
    """An ASGI middleware; see the top of the file. ``check``: see ``Bodies``. ``admits``: whether a request is logged
    in, if the server asks for that; other requests' bodies are not read."""

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
                await self.app(scope, receive, with_send_timeout(send))  # RuntimeError: the stream was closed already
            return
        of_runs, posts = scope["path"].startswith(RUNS), scope["method"] == "POST"
        logs_in = is_login(scope["path"])
        if (of_runs or posts and not logs_in) and not self._admits(scope):  # Gradio checks all other routes itself
            raise Refusal(401, "Log in first: this Canopy asks for a name and a password.")
        with suppress(*([TimeoutError] if of_runs else [])):
            send = with_send_timeout(send) if of_runs else self._count_login(scope, send) if posts and logs_in else send
            async with self._bodies.read(scope, receive) if posts else nullcontext(receive) as body:
                await self.app(scope, body, send)

    def _with_headers(self, send: Send) -> Send:
        """Add the headers that keep responses for the server's own pages, and make cookies SameSite=Lax."""
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
        """Count a login as failed until it succeeds; refuse it while the address has to wait."""
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
    """Refuse a request whose Host or X-Forwarded-Host is not one of ours."""
    host = headers.getlist("host")
    forwarded = [name.strip() for name in headers.get("x-forwarded-host", "").split(",") if hosts.proxies and name]
    unknown_hosts = [name for name in host + forwarded if not hosts.answers_to(name)]
    if len(host) != 1 or unknown_hosts:
        received = repr(unknown_hosts[0][:60]) if unknown_hosts else f"{len(host)} names at once"
        raise Refusal(403, f"This Canopy does not answer to {received}. It answers to "
                           f"{', '.join(sorted(hosts.names))}; whoever runs it can add a name with --allow-host.")


def check_origin(hosts: Hosts, scope: Scope, headers: Headers) -> None:
    """Refuse a request of another website. Allowed: our own page, a program, and a person who opens the page."""
    origins, site = headers.getlist("origin"), headers.get("sec-fetch-site", "same-origin")
    if any(not hosts.is_of_this_server(origin, headers["host"]) for origin in origins):
        raise Refusal(403, f"A request from another website ({origins[0][:80]}) was refused; only Canopy's own page "
                           "may send requests.")
    opened = scope["method"] == "GET" and scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate" and (
        headers.get("sec-fetch-dest") in (("document", "iframe") if hosts.frames else ("document",)))
    typed = scope["method"] in ("GET", "HEAD") and site == "none"
    if site != "same-origin" and not opened and not typed:
        raise Refusal(403, "A request from another website was refused; only Canopy's own page may send requests. "
                           "Other sites may link to the page.")


def check_path(scope: Scope) -> None:
    """Refuse every route that neither the page nor the API for programs uses."""
    path = scope["path"]
    methods = (*HTTP_METHODS, "DELETE") if path.startswith(RUNS) else HTTP_METHODS
    if scope["method"] not in methods:
        raise Refusal(405, f"The method {scope['method'][:20]} is not answered; {', '.join(methods)} are.",
                      {"Allow": ", ".join(methods)})
    if path.startswith(API):
        below = path.removeprefix(API).rstrip("/")
        is_open = any(below == start or (start.endswith("/") and below.startswith(start)) for start in API_ROUTES)
        is_open &= not below.startswith(BLOCKED_API_ROUTE)
    else:
        is_open = (path if path == "/" else path.rstrip("/")) in EXACT_ROUTES or path.startswith(ROUTE_PREFIXES)
    if not is_open or not _can_be_named(path):
        raise Refusal(404, f"There is nothing at {path[:80]!r}.")


def _can_be_named(path: str) -> bool:
    """Return whether a file can have this path; otherwise Gradio would look for it and fail."""
    encoded = path.encode("utf8", "replace")
    steps = encoded.split(b"/")
    return (len(encoded) <= MAX_PATH_LENGTH and max(map(len, steps)) <= MAX_SEGMENT_LENGTH
            and b"\0" not in encoded and b".." not in steps)


def _without_forwarding(hosts: Hosts, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Drop the X-Forwarded-* headers of a request that did not come through a trusted proxy."""
    if hosts.proxies:
        return headers
    return [(name, value) for name, value in headers if not name.startswith((b"x-forwarded-", b"forwarded"))]


def _lax(cookie: bytes) -> bytes:
    parts = [part.strip() for part in cookie.split(b";")]
    return b"; ".join([*(part for part in parts if not part.lower().startswith(b"samesite")), b"SameSite=Lax"])
