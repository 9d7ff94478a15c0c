"""Where the page is served, and its first seconds: a page with a recording answers while Gradio is imported and the
real page is built, which then takes its place on the same sockets. Every other request waits for the real page: the
first page reloads when one of its own requests is answered. Imports nothing that is slow."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.errors import RequestError
from explorer.security.bodies import Refusal
from explorer.security.gate import LOOPBACK, Address, Gate, hosts_of

SHUTDOWN_SECONDS = 2  # for streams to end when the server is told to
MAX_HEADER_BYTES = 32 * 2**10
LAST_PORT = 2**16 - 1
MAX_WAITING_REQUESTS = 64  # for the real page
_UNBUILT = Refusal(503, "The page could not be built; the terminal that it was started in says why.").response(
    programs=False)
_BUSY = Refusal(503, "Too many requests wait for this page to be built; ask again in a few seconds.",
                {"Retry-After": "3"}).response(programs=False)


@dataclass(frozen=True)
class Listening:
    """Where the page is served, and to whom. ``allowed``: addresses of proxies that pass requests on to it; ``auth``: a
    name and a password; ``root_path``: the path prefix that a proxy strips; ``frames``: the origins whose pages may
    show it in a frame."""

    host: str = "127.0.0.1"
    port: int = 7860
    auth: tuple[str, str] | None = None
    allowed: Sequence[Address] = ()
    root_path: str = ""
    frames: Sequence[str] = ()


def listener(app: ASGIApp, listening: Listening) -> uvicorn.Server:
    """Make the server of an app; its ``run`` takes the sockets of ``open_sockets``."""
    return uvicorn.Server(uvicorn.Config(
        app, log_level="warning", server_header=False, ws="none", http="h11",
        proxy_headers=bool(listening.allowed), timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES))


def open_sockets(listening: Listening) -> list[socket.socket]:
    """Open the sockets and print the page's address. Raises RequestError if it is taken or not valid."""
    sockets = sockets_of(listening.host, listening.port)
    host, port = sockets[0].getsockname()[:2]
    print(f"Canopy is at http://{f'[{host}]' if ':' in host else host}:{port}/", flush=True)
    return sockets


def sockets_of(host: str, port: int) -> list[socket.socket]:
    """Open the sockets to listen on. For localhost these are IPv4's and, if the machine has it, IPv6's."""
    if host.strip("[]") not in LOOPBACK:
        return [_socket(host.strip("[]"), port)]
    sockets = [_socket("127.0.0.1", port)]
    with suppress(RequestError):
        sockets.append(_socket("::1", sockets[0].getsockname()[1]))
    return sockets


def _socket(host: str, port: int) -> socket.socket:
    try:
        if not 0 <= port <= LAST_PORT:  # the system would take it modulo 65,536
            raise OverflowError(f"a port lies between 0 and {LAST_PORT}")
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(socket.SOMAXCONN)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RequestError(f"The page cannot be served on {host[:80]}, port {port}: {reason}; name another --host or "
                           "--port.") from error
    return listening


class FirstSeconds:
    """An ASGI app: ``first`` answers the page's address until ``build``, in a thread, has made the app that answers
    everything. If it fails, ``failure`` holds why, and ``give_up`` is called."""

    def __init__(self, first: ASGIApp, build: Callable[[], Starlette], give_up: Callable[[], None]) -> None:
        self.failure: Exception | None = None
        self._first, self._build, self._give_up = first, build, give_up
        self._page: ASGIApp | None = None
        self._waiting = 0
        self._settled, self._ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._page is not None:
            await self._page(scope, receive, send)
        elif scope["type"] != "http" or scope["path"] == "/":
            await self._first(scope, receive, send)
        elif self._waiting >= MAX_WAITING_REQUESTS and not self._settled.is_set():
            await _BUSY(scope, receive, send)
        else:
            self._waiting += 1
            await self._settled.wait()
            await (self._page or _UNBUILT)(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        taking_over = asyncio.create_task(self._take_over())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._ended.set()
        await taking_over
        await send({"type": "lifespan.shutdown.complete"})

    async def _take_over(self) -> None:
        try:
            page = await asyncio.to_thread(self._build)
            if self._ended.is_set():
                return
            async with page.router.lifespan_context(page):
                self._page = page
                self._settled.set()
                await self._ended.wait()
        except Exception as failure:  # raised again by ``serve_at_once``
            self.failure = failure
            self._settled.set()
            self._give_up()


def serve_at_once(page: str, build: Callable[[], Starlette], listening: Listening) -> None:
    """Serve the HTML ``page``, and the app that ``build`` makes as soon as it is ready, until the process is told to
    end. Raises RequestError if the address is taken or not valid, and whatever ``build`` raises."""
    def leave() -> None:
        server.should_exit = True

    async def opened(_: Request) -> HTMLResponse:
        return HTMLResponse(page, headers={"Cache-Control": "no-store"})

    first = Gate(Starlette(routes=[Route("/", opened)]), hosts_of(listening.host, listening.allowed, listening.frames))
    app = FirstSeconds(first, build, leave)
    sockets = open_sockets(listening)
    server = listener(app, listening)
    server.run(sockets)
    if app.failure:
        raise app.failure
