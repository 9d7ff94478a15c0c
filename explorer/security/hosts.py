"""The names that a server answers to, and whether a request comes from its own pages.

A website can make a browser ask a server on this machine, and can let its own name lead here (DNS rebinding); it can
forge neither the Host nor the Origin that the browser sends. Starlette's TrustedHostMiddleware looks at names alone:
it cannot let in every plain address, which nobody can rebind, nor say in a sentence what is allowed.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from engine.errors import RequestError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
PORTS = {"http": 80, "https": 443}
NAME = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::(?P<port>\d{1,5}))?")

Place = tuple[str, int | None]  # a name or an address, in lower case and without brackets; a port where one is said


def place_of(text: str) -> Place | None:
    """``example.org:80`` or ``[::1]:80`` in its two parts; None where it is neither."""
    match = NAME.fullmatch(text)
    if not match or int(match["port"] or 0) > 65535:
        return None
    name = (match["name"] or "").lower().rstrip(".") or (match["address"] or "").lower()
    return (name, int(match["port"]) if match["port"] else None) if name else None


def origin_of(text: str) -> Place | None:
    """The place of a page, always with its port; None for ``null`` and for all that is no website."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    place = place_of(parts.netloc)
    if place is None or parts.scheme not in PORTS or parts.path:
        return None
    return place[0], place[1] or PORTS[parts.scheme]


def is_address(name: str) -> bool:
    """Is it an address and not a name?"""
    with suppress(ValueError):
        return bool(ip_address(name))
    return False


@dataclass(frozen=True)
class Hosts:
    """``names`` are those of the machine; ``addresses``: whether any plain address will do, as it has to where the
    server listens on all; ``proxies`` are the places at which others pass requests on to this server."""

    names: frozenset[str]
    addresses: bool = False
    proxies: tuple[Place, ...] = ()

    def answers_to(self, host: str) -> bool:
        """Whether a request with that Host is meant for this server."""
        place = place_of(host)
        if place is None:
            return False
        name, port = place
        return (name in self.names or (self.addresses and is_address(name)) or any(
            name == known and (port == asked or asked is None) for known, asked in self.proxies))

    def is_own(self, origin: str, host: str) -> bool:
        """Whether a page of that Origin is one of this server, asked as ``host``."""
        place, asked = origin_of(origin), place_of(host)
        if place is None or asked is None:
            return False
        usual = PORTS[urlsplit(origin).scheme]
        return place == (asked[0], asked[1] or usual) or place in [
            (name, port or usual) for name, port in self.proxies]


def hosts_of(listens_on: str, proxies: Sequence[Place] = ()) -> Hosts:
    """The hosts of a server that listens on an address or a name, behind proxies at those places."""
    name = listens_on.strip("[]").lower()
    if name in LOOPBACK:
        return Hosts(frozenset(LOOPBACK), proxies=tuple(proxies))
    if name in EVERYWHERE:
        return Hosts(frozenset({*LOOPBACK, socket.gethostname().lower()}), True, tuple(proxies))
    return Hosts(frozenset({name}), proxies=tuple(proxies))


def proxy_place(text: str) -> Place:
    """What ``--allow-host`` names; RequestError where it is no host."""
    place = place_of(text)
    if place is None:
        raise RequestError(f"{text[:60]!r} is no host; name one as canopy.example.org or canopy.example.org:8443.")
    return place
