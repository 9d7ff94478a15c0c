"""Guessing a password takes long: after a few failures an address has to wait, longer each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from time import monotonic

FREE_FAILURES = 5  # a person mistypes
LONGEST_WAIT_SECONDS = 60.0  # no longer, or others who share the address could be kept out
MOST_ADDRESSES = 4096  # that are remembered; the one that failed longest ago is forgotten first


@dataclass
class Failures:
    """How often an address has failed since its last successful login, and when it may try again."""

    count: int = 0
    again: float = 0.0


class Logins:
    """The failures of every address. An attempt counts as failed until it succeeds, so that many at once gain
    nothing."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, Failures] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """How long that address has to wait before its next attempt; 0 for not at all."""
        failures = self._failures.get(neighbourhood(address))
        return max(0.0, failures.again - self._clock()) if failures else 0.0

    def attempt(self, address: str) -> None:
        """An attempt begins."""
        key = neighbourhood(address)
        failures = self._failures.setdefault(key, Failures())
        self._failures.move_to_end(key)
        failures.count += 1
        over = failures.count - FREE_FAILURES
        failures.again = self._clock() + (min(LONGEST_WAIT_SECONDS, 2.0 ** min(over, 30)) if over > 0 else 0.0)
        while len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """The attempt gave the right password."""
        self._failures.pop(neighbourhood(address), None)


def neighbourhood(address: str) -> str:
    """The address; of the sixth version its first 64 bits, of which one household has all."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))
