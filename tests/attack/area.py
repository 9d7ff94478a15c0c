"""A side on which Canopy is attacked: what its cases are, how one is tried, and an area in a process of its own.

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
from typing import Any, NamedTuple, Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

Case = dict[str, Any]  # of JSON values, so that it can be kept

KEPT = Path(__file__).parent / "kept"
PORTION = 500  # cases that share the values which Hypothesis made
VALUES = 60
SECONDS_A_CASE = 240  # on a busy machine, on which a new process takes a minute
MOST_ALIKE = 3  # of what broke at the same place that are kept


class Bounds(NamedTuple):
    """The class of an area, how many cases are tried of it, and its GiB of address space (0: any), most of which
    libraries map and never touch."""

    kind: str
    cases: int
    gib: int


AREAS: Mapping[str, Bounds] = MappingProxyType({  # by their modules
    "command_line": Bounds("CommandLines", 50_000, 8), "checkpoints": Bounds("Checkpoints", 4_000, 8),
    "traces": Bounds("Traces", 42_000, 3), "http": Bounds("Http", 12_000, 4), "servers": Bounds("Servers", 6_000, 3),
    "browser": Bounds("Browser", 240, 0)})


class BrokenError(Exception):
    """A case was answered in a way that is not allowed; the sentence says how."""


class Area(Protocol):
    """``trial`` raises whatever is wrong with how a case was answered."""

    def values(self) -> SearchStrategy[Any]:
        """What nobody expects."""

    def case(self, random: Random, values: Sequence[Any]) -> Case:
        """Something to try, with some of those values in it."""

    def trial(self, case: Case) -> None:
        """Try one."""

    def close(self) -> None:
        """Nothing more is tried. Raises where what came of all cases together is wrong."""


def area_named(name: str) -> Area:
    """The area of that name; their modules import much, so only the one that is wanted is."""
    area: Area = getattr(import_module(f"tests.attack.{name}"), AREAS[name].kind)()
    return area


@dataclass(frozen=True)
class Plan:
    """How often an area is tried, from which seed, and for how long at the most. ``folder`` is where the case in hand
    and then what came of all lie, for whoever finds the process dead."""

    area: str
    seed: int
    cases: int
    seconds: float
    folder: str


@dataclass
class Outcome:
    """What came of an area: how many cases, how many broke, and how: the first few of each place are kept as files."""

    area: str
    cases: int = 0
    broke: int = 0
    said: list[str] = field(default_factory=list)
    cpu_seconds: float = 0
    peak_mib: float = 0

    def __post_init__(self) -> None:
        self._alike: Counter[str] = Counter()

    def add(self, case: Case, error: BaseException) -> None:
        """Something broke."""
        self.broke += 1
        place, said = place_of(error), f"{type(error).__name__}: {str(error)[:300]}"
        self._alike[place] += 1
        if self._alike[place] <= MOST_ALIKE:
            self.said.append(f"{place}: {said}")
            keep(self.area, case, said)


def place_of(error: BaseException) -> str:
    """The kind of the error and the last line of ours that it came through; of a sentence that is wrong, its words."""
    if isinstance(error, BrokenError):
        return str(error)[:40]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/site-packages/" not in frame.filename]
    last = frames[-1] if frames else None
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}" if last else type(error).__name__


def keep(name: str, case: Case, said: str) -> None:
    """Keep the case as a file that tests try again."""
    KEPT.mkdir(exist_ok=True)
    path = KEPT / f"{name}-{sha256(json.dumps(case).encode()).hexdigest()[:10]}.json"
    path.write_text(json.dumps({"area": name, "case": case, "said": said}, indent=1) + "\n", "utf8")


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


def attack(area: Area, plan: Plan) -> Outcome:
    """Try so many cases, or fewer where the time is up before."""
    outcome, until = Outcome(plan.area), monotonic() + plan.seconds
    with Path(plan.folder, "in-hand.json").open("wb", buffering=0) as in_hand:
        for portion in range(-(-plan.cases // PORTION)):
            words = f"{plan.seed}-{plan.area}-{portion}"
            random, values = Random(words), drawn(area.values(), words)
            for _ in range(min(PORTION, plan.cases - portion * PORTION)):
                if monotonic() > until:
                    break
                case = area.case(random, values)
                data = json.dumps(case).encode()
                os.pwrite(in_hand.fileno(), data, 0)  # to open the file anew takes longer than most cases
                os.ftruncate(in_hand.fileno(), len(data))
                outcome.cases += 1
                try:
                    with at_most(SECONDS_A_CASE):
                        area.trial(case)
                except Exception as error:
                    outcome.add(case, error)
            print(f"{plan.area}: {outcome.cases:,} cases, {outcome.broke} broke", file=sys.stderr, flush=True)
    try:
        area.close()
    except Exception as error:
        outcome.add({"all": True}, error)
    return outcome


def drawn(strategy: SearchStrategy[Any], words: str) -> list[Any]:
    """Values that Hypothesis makes; the same for the same words."""
    values: list[Any] = []

    def taken(value: Any) -> None:
        values.append(value)

    number = int.from_bytes(sha256(words.encode()).digest()[:8], "big")
    seed(number)(settings(
        max_examples=VALUES, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck))(given(strategy)(taken)))()
    return values


def main(plan: Plan) -> None:
    """Attack within bounds, and leave what came of it in a file."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    if most := AREAS[plan.area].gib * 2**30:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    outcome = attack(area_named(plan.area), plan)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    outcome.peak_mib = used[0].ru_maxrss / 1024
    outcome.cpu_seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    Path(plan.folder, "result.json").write_text(json.dumps(asdict(outcome)), "utf8")


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
    sys.stderr.flush()
    os._exit(0)  # whatever threads a case left do not hold it up
