"""A side on which Canopy is attacked: what its cases are, how one is tried, and many of them within bounds.

Cases come in portions. For each, Hypothesis makes values that nobody expects; a case is something sound in which some
of them stand. A portion follows from the seed and its number alone. (Hypothesis could make whole cases too, in five
times the time that it takes to try them.)
"""

import json
import os
import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random
from time import monotonic
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.attack.mutations import json_values

Case = dict[str, Any]  # of JSON values, so that it can be kept

KEPT = Path(__file__).parent / "kept"
PORTION = 500  # cases that share the values which Hypothesis made
VALUES = 60
SECONDS_A_CASE = 240  # on a busy machine, on which a new process takes a minute
MAX_ALIKE = 3  # of what broke at the same place that are kept


class Bounds(NamedTuple):
    """The class of an area, how many cases are tried of it, and its GiB of address space (0: any), most of which
    libraries map and never touch."""

    kind: str
    cases: int
    gib: int


AREAS: Mapping[str, Bounds] = MappingProxyType({  # by their modules
    "command_line": Bounds("CommandLines", 50_000, 8), "checkpoints": Bounds("Checkpoints", 4_000, 8),
    "rigs": Bounds("Rigs", 2_000, 8),
    "traces": Bounds("Traces", 42_000, 3), "http": Bounds("Http", 12_000, 4), "servers": Bounds("Servers", 6_000, 3),
    "browser": Bounds("Browser", 240, 0)})


class BrokenError(Exception):
    """A case was answered in a way that is not allowed; the sentence says how."""


def check_sentence(reply: object, most: int = 600) -> None:
    """BrokenError if a refusal is not one sentence."""
    text = str(reply)
    if not (text.endswith(".") and text.isprintable() and len(text) <= most):
        raise BrokenError(f"No sentence: {text[:300]!r}")


class Area:
    """One side: sound things, made odd."""

    def values(self) -> SearchStrategy[Any]:
        """What nobody expects."""
        return json_values()

    def case(self, random: Random, values: Sequence[Any]) -> Case:
        """Something to try, with some of those values in it."""
        raise NotImplementedError

    def trial(self, case: Case) -> None:
        """Try one; raises whatever is wrong with how it was answered."""
        raise NotImplementedError

    def check_all(self) -> None:
        """Raises where what came of all cases together is wrong."""

    def close(self) -> None:
        """Nothing more is tried."""

    def cases(self, words: str, count: int) -> Iterator[Case]:
        """So many cases; the same for the same words."""
        for number in range(count):
            if number % PORTION == 0:
                portion = f"{words}-{number // PORTION}"
                random, values = Random(portion), examples(self.values(), portion)
            yield self.case(random, values)


def area_named(name: str) -> Area:
    """The area of that name; their modules import much, so only the one that is wanted is."""
    area: Area = getattr(import_module(f"tests.attack.{name}"), AREAS[name].kind)()
    return area


def examples(strategy: SearchStrategy[Any], words: str) -> list[Any]:
    """Values that Hypothesis makes; the same for the same words."""
    values: list[Any] = []

    def take(value: Any) -> None:
        values.append(value)

    number = int.from_bytes(sha256(words.encode()).digest()[:8], "big")
    seed(number)(settings(
        max_examples=VALUES, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck))(given(strategy)(take)))()
    return values


@dataclass
class Outcome:
    """What came of an area from one seed: how many cases of those wanted, how many broke, and how: the first few of
    each line of code are kept as files."""

    area: str
    seed: int
    wanted: int
    cases: int = 0
    broke: int = 0
    reports: list[str] = field(default_factory=list)
    seconds: float = 0
    cpu_seconds: float = 0
    peak_mib: float = 0

    def __post_init__(self) -> None:
        self._alike: Counter[str] = Counter()

    def add(self, case: Case, error: BaseException) -> None:
        """Something broke."""
        self.broke += 1
        origin, report = origin_of(error), f"{type(error).__name__}: {str(error)[:300]}"
        self._alike[origin] += 1
        if self._alike[origin] <= MAX_ALIKE:
            self.reports.append(f"{origin}: {report}")
            keep(self.area, case, report)


def origin_of(error: BaseException) -> str:
    """The kind of the error and the last line of ours that it came through; of a sentence that is wrong, its words."""
    if isinstance(error, BrokenError):
        return str(error)[:40]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/site-packages/" not in frame.filename]
    last = frames[-1] if frames else None
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}" if last else type(error).__name__


def keep(name: str, case: Case, report: str) -> None:
    """Keep the case as a file that tests try again."""
    KEPT.mkdir(exist_ok=True)
    path = KEPT / f"{name}-{sha256(json.dumps(case).encode()).hexdigest()[:10]}.json"
    path.write_text(json.dumps({"area": name, "case": case, "said": report}, indent=1) + "\n", "utf8")


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """BrokenError where the block takes longer than that."""
    def late(number: int, frame: FrameType | None) -> None:
        raise BrokenError(f"It took more than {seconds} s.")

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def attack(outcome: Outcome, seconds: float, folder: Path) -> None:
    """Try the cases that are wanted, or fewer where the time is up before, and end this process. ``folder`` gets the
    case in hand, for whoever finds the process dead, and then what came of all."""
    sys.stdout = open(os.devnull, "w", encoding="utf8")  # noqa: SIM115 (until the process ends)
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    if most := AREAS[outcome.area].gib * 2**30:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    area, until = area_named(outcome.area), monotonic() + seconds
    with (folder / "in-hand.json").open("wb", buffering=0) as in_hand:
        for case in area.cases(f"{outcome.seed}-{outcome.area}", outcome.wanted):
            if monotonic() > until:
                break
            data = json.dumps(case).encode()
            os.pwrite(in_hand.fileno(), data, 0)  # to open the file anew takes longer than most cases
            os.ftruncate(in_hand.fileno(), len(data))
            outcome.cases += 1
            try:
                with at_most(SECONDS_A_CASE):
                    area.trial(case)
            except Exception as error:
                outcome.add(case, error)
            if outcome.cases % PORTION == 0:
                print(f"{outcome.area}: {outcome.cases:,} cases, {outcome.broke} broke", file=sys.stderr, flush=True)
    try:
        area.check_all()
        area.close()
    except Exception as error:
        outcome.add({"all": True}, error)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    outcome.peak_mib = used[0].ru_maxrss / 1024
    outcome.cpu_seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    (folder / "outcome.json").write_text(json.dumps(asdict(outcome)), "utf8")
    sys.stderr.flush()
    os._exit(0)  # whatever threads a case left do not hold it up
