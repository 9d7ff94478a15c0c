"""A server's counters over all its requests, as ``/metrics`` reports them (in Prometheus' text format)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SAMPLE = re.compile(r'([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?')
LABEL = re.compile(r'(?<!\w)([A-Za-z_]\w*+)="((?:[^"\\]|\\.)*+)"')  # possessive: a hostile line takes no longer
LARGEST_COUNT = 1e15
PLACE = re.compile("[0-9]{1,3}")  # a place in a draft


@dataclass(frozen=True)
class CounterNames:
    """A kind of server's names for its counters, without ``_total``; empty for those that it does not have. ``place``
    is the label of ``by_place`` that holds the place in the draft, from 0; ``length`` and ``rate`` are its own
    means."""

    drafts: str = ""
    drafted: str = ""
    accepted: str = ""
    by_place: str = ""
    place: str = ""
    generated: str = ""
    running: str = ""
    length: str = ""
    rate: str = ""


@dataclass(frozen=True)
class Counts:
    """The counters since the server started, summed over its engines; None for what it does not count. ``by_place``
    counts accepted tokens by their place in the draft."""

    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    generated: float | None = None
    running: float | None = None
    length: float | None = None
    rate: float | None = None
    by_place: tuple[float, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether none of the counters that are shown was found."""
        return self == Counts()


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """The name, labels and value of every sample; any other line is skipped, and so is what no counter can be."""
    for line in text.splitlines():
        found = SAMPLE.fullmatch(line.strip())
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if 0 <= value <= LARGEST_COUNT:
            yield found[1].removesuffix("_total"), dict(LABEL.findall(found[2] or "")), value


def counts_of(text: str, names: CounterNames) -> Counts:
    """The counters of that kind of server in this text."""
    sums: dict[str, float] = {}
    places: dict[int, float] = {}
    for name, labels, value in samples(text):
        sums[name] = sums.get(name, 0.0) + value
        place = labels.get(names.place, "")
        if name == names.by_place and PLACE.fullmatch(place):
            places[int(place)] = places.get(int(place), 0.0) + value
    found = {field: sums.get(getattr(names, field)) for field in (
        "drafts", "drafted", "accepted", "generated", "running", "length", "rate")}
    return Counts(by_place=tuple(places.get(place, 0.0) for place in range(max(places, default=-1) + 1)), **found)
