"""A server's counters over all its requests (``/metrics`` in Prometheus' text format), and its traffic between looks at
them."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from time import monotonic
from typing import Any

from engine.errors import ServerError
from engine.servers.server import Server

SAMPLE = re.compile(r'([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?')
POSITION_LABEL = re.compile(r'(?<!\w)position="([0-9]{1,3})"')  # of a drafted token, from 0
MAX_COUNT = 1e15
MIN_SECONDS = 1.0  # between two looks at the counters, however many browsers ask
MAX_LOOKS = 900
SILENT_TOKENS = 64  # a server that writes so many without a draft gets a note


@dataclass(frozen=True)
class Counts:
    """The counters since the server started, summed over its engines; None for what it does not count. ``by_depth``
    counts accepted tokens by their depth in the draft; ``length`` is its own mean acceptance length. ``seconds``: when
    that was, after the first look."""

    drafts: float | None = None
    accepted: float | None = None
    generated: float | None = None
    running: float | None = None
    length: float | None = None
    by_depth: tuple[float, ...] = ()
    seconds: float = 0.0

    @property
    def tau(self) -> float | None:
        """Tokens per round, the root included; None if that is not counted."""
        return 1 + self.accepted / self.drafts if self.drafts and self.accepted is not None else self.length


def read_counters(text: str, names: Mapping[str, str]) -> Counts:
    """Read the counters in this text; ``names`` are a kind of server's names, without ``_total``, by the fields of
    ``Counts``. Lines that are no sample are skipped, and so is what no counter can be."""
    sums: dict[str, float] = {}
    depths: dict[int, float] = {}
    for line in text.splitlines():
        sample = SAMPLE.fullmatch(line.strip())
        try:
            value = float(sample[3]) if sample else -1.0
        except ValueError:
            continue
        if sample is None or not 0 <= value <= MAX_COUNT:
            continue
        name = sample[1].removesuffix("_total")
        sums[name] = sums.get(name, 0.0) + value
        if name == names.get("by_depth") and (depth := POSITION_LABEL.search(sample[2] or "")):
            depths[int(depth[1])] = depths.get(int(depth[1]), 0.0) + value
    counters: dict[str, Any] = {field: sums.get(name) for field, name in names.items() if field != "by_depth"}
    return Counts(by_depth=tuple(depths.get(depth, 0.0) for depth in range(max(depths, default=-1) + 1)), **counters)


class Watch:
    """The counters of one server, looked at from time to time."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._lock = Lock()
        self._began = monotonic()
        self._looks: deque[Counts] = deque(maxlen=MAX_LOOKS)

    def look(self) -> list[Counts]:
        """The looks so far, with a new one if the last is old enough; ServerError if the server counts nothing of what
        is shown."""
        client, kind = self.server.client, self.server.kind
        with self._lock:
            now = monotonic() - self._began
            if self._looks and now - self._looks[-1].seconds < MIN_SECONDS:
                return list(self._looks)
            try:
                counts = read_counters(client.text("/metrics"), kind.counters)
            except ServerError as error:
                raise ServerError(f"{error} {kind.counting}".strip()) from error
            if counts == Counts():
                raise ServerError(f"{client.address}/metrics has none of the counters of {kind.title}.")
            self._looks.append(replace(counts, seconds=now))
            return list(self._looks)


def traffic(looks: Sequence[Counts]) -> list[Counts]:
    """What was counted between each two looks: ``generated`` is tokens per second then, None after a restart."""
    spans = []
    for before, after in zip(looks, looks[1:], strict=False):
        drafts, accepted = _grown(before.drafts, after.drafts), _grown(before.accepted, after.accepted)
        generated = _grown(before.generated, after.generated)
        rate = None if generated is None else generated / (after.seconds - before.seconds)
        spans.append(Counts(drafts, accepted, rate, length=after.length, seconds=after.seconds))
    return spans


def by_depth(looks: Sequence[Counts]) -> list[float]:
    """The share of drafts whose token at each depth was accepted, since the first look; if nothing was drafted
    since then, since the server started."""
    first, last = looks[0], looks[-1]
    if drafts := _grown(first.drafts, last.drafts):
        before = [*first.by_depth, *[0.0] * len(last.by_depth)]
        return [max(0.0, now - then) / drafts for then, now in zip(before, last.by_depth, strict=False)]
    return [now / last.drafts for now in last.by_depth] if last.drafts else []


def silence(looks: Sequence[Counts]) -> str:
    """Say that the server drafts nothing although it writes; empty if it drafts, and if it wrote little or does not
    count that. It looks back to the last draft."""
    last = looks[-1]
    since = next(look for look in looks if look.drafts == last.drafts)
    tokens = _grown(since.generated, last.generated)
    if tokens is None or tokens < SILENT_TOKENS:
        return ""
    return (f"It wrote {tokens:.0f} tokens in the last {last.seconds - since.seconds:.0f} s and reported no drafted "
            "token: speculation is off, fell back to plain decoding, or is not counted there.")


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else after - before
