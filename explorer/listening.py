"""Where the page is served: the sockets, and the server that listens on them. Imports nothing that is slow."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from engine.errors import RequestError
from explorer.security.hosts import LOOPBACK, Place

GOODBYE_SECONDS = 2  # for streams to end when the server is told to
LONGEST_HEADERS = 32 * 2**10  # bytes
LAST_PORT = 2**16 - 1


@dataclass(frozen=True)
class Listening:
    """Where the page is served, and to whom: ``allowed`` are the proxies' addresses that pass requests on to it,
    ``auth`` is a name and a password."""

    host: str = "127.0.0.1"
    port: int = 7860
    auth: tuple[str, str] | None = None
    allowed: Sequence[Place] = ()


def listener(app: ASGIApp, listening: Listening) -> uvicorn.Server:
    """The server of an app; its ``run`` is given the ``announced`` sockets."""
    return uvicorn.Server(uvicorn.Config(
        app, log_level="warning", server_header=False, ws="none", http="h11",
        proxy_headers=bool(listening.allowed), timeout_graceful_shutdown=GOODBYE_SECONDS,
        h11_max_incomplete_event_size=LONGEST_HEADERS))


def announced(listening: Listening) -> list[socket.socket]:
    """The sockets to listen on, after printing the page's address. Raises RequestError where it is taken or not
    valid."""
    sockets = sockets_of(listening.host, listening.port)
    host, port = sockets[0].getsockname()[:2]
    print(f"Canopy is at http://{f'[{host}]' if ':' in host else host}:{port}/", flush=True)
    return sockets


def sockets_of(host: str, port: int) -> list[socket.socket]:
    """The sockets to listen on: of the host's address, or for this machine alone of IPv4 and, where possible, IPv6."""
    if host.strip("[]") in LOOPBACK:
        sockets = [_socket("127.0.0.1", port)]
        with suppress(RequestError):
            sockets.append(_socket("::1", sockets[0].getsockname()[1]))
        return sockets
    return [_socket(host.strip("[]"), port)]


def _socket(host: str, port: int) -> socket.socket:
    try:
        if not 0 <= port <= LAST_PORT:  # the system would take it modulo 65,536
            raise OverflowError(f"a port lies between 0 and {LAST_PORT}")
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(socket.SOMAXCONN)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RequestError(f"The page cannot be served on {host[:80]}, port {port}: {reason}; name another --host or "
                           "--port.") from error
    return listening
