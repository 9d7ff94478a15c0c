"""A server's counters over time: the work on all its requests between two looks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from engine.servers.counters import Counts
from engine.servers.server import Server

LEAST_SECONDS = 1.0  # between two looks, however many browsers ask
MOST_LOOKS = 900


@dataclass(frozen=True)
class TrafficLook:
    """The counters at a time, in seconds since the first look."""

    seconds: float
    counts: Counts


@dataclass(frozen=True)
class Traffic:
    """The traffic between two looks: ``seconds`` at its end, tokens per second, and tokens per round, the root
    included; None for what the server does not count, or where nothing was drafted."""

    seconds: float
    tokens_per_second: float | None
    tau: float | None


class Watch:
    """The counters of one server, looked at from time to time."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._lock = Lock()
        self._began = monotonic()
        self._looks: deque[TrafficLook] = deque(maxlen=MOST_LOOKS)

    def look(self) -> list[TrafficLook]:
        """The looks so far, with a new one where the last is old enough."""
        with self._lock:
            now = monotonic() - self._began
            if not self._looks or now - self._looks[-1].seconds >= LEAST_SECONDS:
                self._looks.append(TrafficLook(now, self.server.counts()))
            return list(self._looks)


def traffic(looks: Sequence[TrafficLook]) -> list[Traffic]:
    """The traffic between each two looks. A counter that fell means that the server was restarted."""
    return [_between(before, after) for before, after in zip(looks, looks[1:], strict=False)]


def by_place(looks: Sequence[TrafficLook]) -> list[float]:
    """The share of drafts whose token at each place was accepted, since the first look; where nothing was drafted
    since then, since the server started."""
    if not looks:
        return []
    first, last = looks[0].counts, looks[-1].counts
    drafts = _grown(first.drafts, last.drafts)
    if drafts:
        before = [*first.by_place, *[0.0] * len(last.by_place)]
        return [max(0.0, now - then) / drafts for then, now in zip(before, last.by_place, strict=False)]
    return [now / last.drafts for now in last.by_place] if last.drafts else []


def _between(before: TrafficLook, after: TrafficLook) -> Traffic:
    then, now = before.counts, after.counts
    drafts, accepted = _grown(then.drafts, now.drafts), _grown(then.accepted, now.accepted)
    generated = _grown(then.generated, now.generated)
    tau = 1 + accepted / drafts if drafts and accepted is not None else now.length
    rate = None if generated is None else generated / (after.seconds - before.seconds)
    return Traffic(after.seconds, rate, tau)


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else after - before
