"""A server's counters over all its requests (``/metrics`` in Prometheus' text format) and its traffic over time."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from time import monotonic
from typing import Any

from engine.errors import ServerError
from engine.servers.server import Server

LINE = re.compile(r'([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?')
POSITION_LABEL = re.compile(r'(?<!\w)position="([0-9]{1,3})"')  # of a drafted token, from 0
MAX_COUNT = 1e15
MIN_SECONDS = 1.0  # between two samples, however many browsers ask
MAX_SAMPLES = 900
SILENT_TOKENS = 64  # written without a draft: then there is a warning


@dataclass(frozen=True)
class Counts:
    """The counters since the server started, summed over its engines; None for what it does not count."""

    drafts: float | None = None
    accepted: float | None = None
    generated: float | None = None
    running: float | None = None
    length: float | None = None  # the mean acceptance length as the server reports it
    by_depth: tuple[float, ...] = ()  # accepted tokens by depth in the draft, from 1
    seconds: float = 0.0  # since the first sample

    @property
    def tau(self) -> float | None:
        """Tokens per round, the root included; None if unknown."""
        return 1 + self.accepted / self.drafts if self.drafts and self.accepted is not None else self.length


def read_counters(text: str, names: Mapping[str, str]) -> Counts:
    """Read the counters in this text, skipping all other lines. ``names``: the server's names, without ``_total``, by
    the fields of ``Counts``."""
    sums: dict[str, float] = {}
    depths: dict[int, float] = {}
    for line in text.splitlines():
        counter = LINE.fullmatch(line.strip())
        try:
            value = float(counter[3]) if counter else -1.0
        except ValueError:
            continue
        if counter is None or not 0 <= value <= MAX_COUNT:
            continue
        name = counter[1].removesuffix("_total")
        sums[name] = sums.get(name, 0.0) + value
        if name == names.get("by_depth") and (depth := POSITION_LABEL.search(counter[2] or "")):
            depths[int(depth[1])] = depths.get(int(depth[1]), 0.0) + value
    counters: dict[str, Any] = {field: sums.get(name) for field, name in names.items() if field != "by_depth"}
    return Counts(by_depth=tuple(depths.get(depth, 0.0) for depth in range(max(depths, default=-1) + 1)), **counters)


class CounterHistory:
    """The counters of one server over time."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._lock = Lock()
        self._began = monotonic()
        self._samples: deque[Counts] = deque(maxlen=MAX_SAMPLES)

    def sample(self) -> list[Counts]:
        """Return the samples so far, with a new one unless the last is recent. ServerError without counters."""
        client, kind = self.server.client, self.server.kind
        with self._lock:
            now = monotonic() - self._began
            if self._samples and now - self._samples[-1].seconds < MIN_SECONDS:
                return list(self._samples)
            try:
                counts = read_counters(client.text("/metrics"), kind.counters)
            except ServerError as error:
                raise ServerError(f"{error} {kind.counting}".strip()) from error
            if counts == Counts():
                raise ServerError(f"{client.address}/metrics has none of the counters of {kind.title}.")
            self._samples.append(replace(counts, seconds=now))
            return list(self._samples)


def traffic(samples: Sequence[Counts]) -> list[Counts]:
    """Return the differences of successive samples; ``generated`` is in tokens per second, None after a restart."""
    spans = []
    for before, after in zip(samples, samples[1:], strict=False):
        drafts, accepted = _grown(before.drafts, after.drafts), _grown(before.accepted, after.accepted)
        generated = _grown(before.generated, after.generated)
        rate = None if generated is None else generated / (after.seconds - before.seconds)
        spans.append(Counts(drafts, accepted, rate, length=after.length, seconds=after.seconds))
    return spans


def by_depth(samples: Sequence[Counts]) -> list[float]:
    """Return the share of drafts whose token at each depth was accepted, since the first sample; since the server
    started if nothing was drafted after it."""
    first, last = samples[0], samples[-1]
    if drafts := _grown(first.drafts, last.drafts):
        before = [*first.by_depth, *[0.0] * len(last.by_depth)]
        return [max(0.0, now - then) / drafts for then, now in zip(before, last.by_depth, strict=False)]
    return [now / last.drafts for now in last.by_depth] if last.drafts else []


def no_drafts_warning(samples: Sequence[Counts]) -> str:
    """Return a warning if the server wrote ``SILENT_TOKENS`` tokens since its last draft, else "" (also if it does not
    count them)."""
    last = samples[-1]
    since = next(sample for sample in samples if sample.drafts == last.drafts)
    tokens = _grown(since.generated, last.generated)
    if tokens is None or tokens < SILENT_TOKENS:
        return ""
    return (f"It wrote {tokens:.0f} tokens in the last {last.seconds - since.seconds:.0f} s and reported no drafted "
            "token: speculation is off, fell back to plain decoding, or is not counted there.")


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else after - before
