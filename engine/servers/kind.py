"""What differs between kinds of servers: how one is recognised, its extra request fields, and where its figures are:
those of an answer, and its counters over all requests (``/metrics`` in Prometheus' text format)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import ServerError
from engine.recorder import MAX_INT32, seen

MAX_STEPS = 2**16  # of one answer; whether its text has so many tokens is seen when the two are joined
MAX_DRAFTED = 1024  # tokens in one step; the drafters in use draft 16, n-grams some hundreds
MAX_RATE = 1e6  # of a mean, or tokens a second


@dataclass(frozen=True)
class ServerReport:
    """``accepted`` and ``drafted`` count tokens, one number per step in order; empty if the server does not report
    steps. ``width`` is the most that it drafts in a step, 0 if unknown; ``steps`` is their number, None if unknown;
    of ``tried`` drafted tokens ``kept`` were accepted in all, None if unknown; ``sentence`` holds its own
    figures. ServerError if more were accepted than drafted."""

    sentence: str
    accepted: tuple[int, ...] = ()
    drafted: tuple[int, ...] = ()
    width: int = 0
    steps: int | None = None
    kept: int | None = None
    tried: int | None = None

    def __post_init__(self) -> None:
        if self.kept is not None and self.tried is not None and self.kept > self.tried:
            raise ServerError(f"The server reports that {self.kept} of {self.tried} drafted tokens were accepted; that "
                              "is more than all of them.")


def section(event: Mapping[str, Any], *names: str) -> Mapping[str, Any] | None:
    """The object at a path of names inside an object; None if there is none."""
    value: Any = event
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else None


def count(given: Mapping[str, Any], name: str, most: int = MAX_INT32) -> int | None:
    """A whole number from 0 to ``most``; None if it is missing, ServerError if it is anything else."""
    value = given.get(name)
    return None if value is None else _whole(value, name, most)


def counts(given: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """The tokens of each step, from 0 to ``MAX_DRAFTED``; empty if they are missing, ServerError if they are
    anything else."""
    values = given.get(name)
    if values is None:
        return ()
    if not isinstance(values, list) or len(values) > MAX_STEPS:
        raise ServerError(f"The server reports {name} as {seen(values)}; it has to be a list of at most "
                          f"{MAX_STEPS:,} numbers.")
    return tuple(_whole(value, name, MAX_DRAFTED) for value in values)


def _whole(value: Any, name: str, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ServerError(f"The server reports {name} as {seen(value)}; it has to be a whole number from 0 to "
                          f"{most:,}.")
    return value


def rate(given: Mapping[str, Any], name: str) -> str:
    """A figure of the server's, to three digits; a question mark if it is missing or cannot be one."""
    value: Any = given.get(name)
    return f"{value:.3g}" if type(value) in (int, float) and 0 <= value <= MAX_RATE else "?"


def whole(text: str) -> str:
    """The text with a question mark for each lone surrogate, which JSON can name and nothing can encode."""
    return text.encode("utf8", "replace").decode()


SAMPLE = re.compile(r'([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?')
LABEL = re.compile(r'(?<!\w)([A-Za-z_]\w*+)="((?:[^"\\]|\\.)*+)"')  # possessive: a hostile line takes no longer
MAX_COUNT = 1e15
DEPTH_LABEL, DEPTH = "position", re.compile("[0-9]{1,3}")  # in a draft, from 0


@dataclass(frozen=True)
class Counts:
    """The counters since the server started, summed over its engines; None for what it does not count. ``by_depth``
    counts accepted tokens by their depth in the draft; ``length`` is its own mean acceptance length."""

    drafts: float | None = None
    accepted: float | None = None
    generated: float | None = None
    running: float | None = None
    length: float | None = None
    by_depth: tuple[float, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether none of the counters that are shown was found."""
        return self == Counts()


def counts_of(text: str, names: Mapping[str, str]) -> Counts:
    """The counters in this text; ``names`` are a kind of server's names, without ``_total``, by the fields of
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
        depth = dict(LABEL.findall(sample[2] or "")).get(DEPTH_LABEL, "")
        if name == names.get("by_depth") and DEPTH.fullmatch(depth):
            depths[int(depth)] = depths.get(int(depth), 0.0) + value
    counters = {field: sums.get(name) for field, name in names.items() if field != "by_depth"}
    return Counts(by_depth=tuple(depths.get(depth, 0.0) for depth in range(max(depths, default=-1) + 1)), **counters)


@dataclass(frozen=True)
class ServerKind:
    """A kind of server.

    ``owner`` is the value of ``owned_by`` in its ``/v1/models``; ``asks`` are request fields besides the usual ones;
    ``version`` is the path of its version, and the field in that answer. ``report`` reads an event of the stream, and
    returns None if it holds no figures on speculation. ``a_chunk_is_a_step`` says that every chunk of its stream was
    written by one step; ``counters`` are its names for ``Counts``. ``more`` tells a person how to make it report more,
    ``counting`` how to make it count.
    """

    title: str
    owner: str
    asks: Mapping[str, Any] = field(default_factory=dict)
    version: tuple[str, str] = ("", "")
    report: Callable[[Mapping[str, Any]], ServerReport | None] = lambda event: None
    counters: Mapping[str, str] = field(default_factory=dict)
    a_chunk_is_a_step: bool = False
    more: str = ""
    counting: str = ""


UNKNOWN = ServerKind(
    "an OpenAI-compatible server", "", more="Attach vLLM, SGLang or llama.cpp to see what a server reports.")
