"""An area that is attacked: a strategy of cases, the property that each has to hold, and the search for the smallest
case that breaks it."""

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from time import monotonic
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.strategies import SearchStrategy

Case = dict[str, Any]  # of JSON values, so that it can be kept
KEPT = Path(__file__).parent / "kept"
PORTION = 500  # cases of one run of Hypothesis, which remembers them
MAX_BROKEN = 3  # portions, after which an area ends
SECONDS_PER_CASE = 240  # on a busy machine, on which a new process takes a minute


class Bounds(NamedTuple):
    """How many cases are tried of an area, and its GiB of address space (0: any), most of which libraries map and
    never touch."""

    cases: int
    gib: int


AREAS: Mapping[str, Bounds] = MappingProxyType({  # by their modules
    "command_line": Bounds(50_000, 8), "rigs": Bounds(6_000, 8),
    "traces": Bounds(42_000, 3), "http": Bounds(12_000, 4), "servers": Bounds(6_000, 3), "browser": Bounds(240, 0)})


class BrokenError(Exception):
    """A case was answered in a way that is not allowed; the sentence says how."""


def check_sentence(reply: object, max_length: int = 600) -> None:
    """Raise BrokenError if a refusal is not one sentence."""
    text = str(reply)
    if not (text.endswith((".", "?")) and text.isprintable() and len(text) <= max_length):
        raise BrokenError(f"No sentence: {text[:300]!r}")


class Area:
    """One side of Canopy that reads what strangers send."""

    cases: SearchStrategy[Case]

    def trial(self, case: Case) -> None:
        """Try a case; raises what is wrong with how it was answered."""
        raise NotImplementedError

    def check_all(self) -> None:
        """Raise BrokenError if what came of all cases together is wrong."""

    def close(self) -> None:
        """Nothing more is tried."""


def area_named(name: str) -> Area:
    """The area of that name; their modules import much, so only the one that is wanted is."""
    area: Area = import_module(f"tests.attack.{name}").Attack()
    return area


def attack(area: Area, seed: str, count: int) -> tuple[Case, Exception] | None:
    """Try so many cases, the same for the same seed; the smallest that breaks, and what it raised."""
    broken: tuple[Case, Exception] | None = None

    def trial(case: Case) -> None:
        nonlocal broken
        try:
            with at_most(SECONDS_PER_CASE):
                area.trial(case)
        except Exception as error:
            broken = case, error
            raise

    number = int.from_bytes(sha256(seed.encode()).digest()[:8], "big")
    quietly = settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
                       verbosity=Verbosity.quiet, suppress_health_check=list(HealthCheck))
    try:
        hypothesis.seed(number)(quietly(given(area.cases)(trial)))()
    except (Exception, BaseExceptionGroup):
        if not broken:  # the strategy itself fails
            raise
    return broken


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise BrokenError if the block takes longer than that."""
    def late(number: int, frame: FrameType | None) -> None:
        raise BrokenError(f"It took more than {seconds} s.")

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def keep(name: str, case: Case, report: str) -> None:
    """Keep the case as a file that tests try again."""
    path = KEPT / f"{name}-{sha256(json.dumps(case).encode()).hexdigest()[:10]}.json"
    path.write_text(json.dumps({"area": name, "case": case, "said": report}, indent=1) + "\n", "utf8")


def attack_here(name: str, seed: int, wanted: int, until: float, folder: Path) -> None:
    """Try the cases that are wanted, or fewer if the time is up before, and end this process. ``folder`` gets the case
    in hand, for whoever finds the process dead, and in the end how many were tried and a report of each that broke."""
    sys.stdout = open(os.devnull, "w", encoding="utf8")  # noqa: SIM115 (until the process ends)
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    if limit := AREAS[name].gib * 2**30:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    area, in_hand = area_named(name), (folder / "in-hand.json").open("wb", buffering=0)
    trial, tried, reports = area.trial, 0, list[str]()

    def noted(case: Case) -> None:
        data = json.dumps(case).encode()
        os.pwrite(in_hand.fileno(), data, 0)  # to open the file anew takes longer than most cases
        os.ftruncate(in_hand.fileno(), len(data))
        trial(case)

    area.trial = noted  # type: ignore[method-assign]
    while tried < wanted and monotonic() < until and len(reports) < MAX_BROKEN:
        count = min(PORTION, wanted - tried)
        if broken := attack(area, f"{seed}-{name}-{tried}", count):
            reports.append(f"{type(broken[1]).__name__}: {str(broken[1])[:300]}")
            keep(name, broken[0], reports[-1])
        tried += count
        print(f"{name}: {tried:,} cases, {len(reports)} broke", file=sys.stderr, flush=True)
    try:
        area.check_all()
        area.close()
    except Exception as error:
        reports.append(f"In the end: {type(error).__name__}: {str(error)[:300]}")
    (folder / "outcome.json").write_text(json.dumps([tried, reports]), "utf8")
    os._exit(0)  # whatever threads a case left do not hold it up
