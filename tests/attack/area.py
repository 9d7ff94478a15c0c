"""An area that is attacked: a strategy of cases, the property that each has to hold, and what breaks it at its
smallest."""

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
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
    "command_line": Bounds(50_000, 8), "checkpoints": Bounds(4_000, 8), "rigs": Bounds(2_000, 8),
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


def keep(name: str, case: Case, report: str) -> None:
    """Keep the case as a file that tests try again."""
    path = KEPT / f"{name}-{sha256(json.dumps(case).encode()).hexdigest()[:10]}.json"
    path.write_text(json.dumps({"area": name, "case": case, "said": report}, indent=1) + "\n", "utf8")


@dataclass
class Outcome:
    """What came of an area from one seed."""

    area: str
    seed: int
    wanted: int
    cases: int = 0
    seconds: float = 0
    cpu_seconds: float = 0
    peak_mib: float = 0
    reports: list[str] = field(default_factory=list)  # of what broke


def attack_within(outcome: Outcome, until: float, folder: Path) -> None:
    """Try the cases that are wanted, or fewer if the time is up before, and end this process. ``folder`` gets the case
    in hand, for whoever finds the process dead, and then what came of all."""
    sys.stdout = open(os.devnull, "w", encoding="utf8")  # noqa: SIM115 (until the process ends)
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    if most := AREAS[outcome.area].gib * 2**30:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    area, in_hand = area_named(outcome.area), (folder / "in-hand.json").open("wb", buffering=0)
    trial = area.trial

    def noted(case: Case) -> None:
        data = json.dumps(case).encode()
        os.pwrite(in_hand.fileno(), data, 0)  # to open the file anew takes longer than most cases
        os.ftruncate(in_hand.fileno(), len(data))
        trial(case)

    area.trial = noted  # type: ignore[method-assign]
    while outcome.cases < outcome.wanted and monotonic() < until and len(outcome.reports) < MAX_BROKEN:
        count = min(PORTION, outcome.wanted - outcome.cases)
        if broken := attack(area, f"{outcome.seed}-{outcome.area}-{outcome.cases}", count):
            outcome.reports.append(f"{type(broken[1]).__name__}: {str(broken[1])[:300]}")
            keep(outcome.area, broken[0], outcome.reports[-1])
        outcome.cases += count
        print(f"{outcome.area}: {outcome.cases:,} cases, {len(outcome.reports)} broke", file=sys.stderr, flush=True)
    end(area, outcome)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    outcome.peak_mib = used[0].ru_maxrss / 1024
    outcome.cpu_seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    (folder / "outcome.json").write_text(json.dumps(asdict(outcome)), "utf8")
    os._exit(0)  # whatever threads a case left do not hold it up


def end(area: Area, outcome: Outcome) -> None:
    """Check what came of all cases together."""
    try:
        area.check_all()
        area.close()
    except Exception as error:
        outcome.reports.append(f"In the end: {type(error).__name__}: {str(error)[:300]}")


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
