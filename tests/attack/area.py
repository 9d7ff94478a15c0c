"""A side on which Canopy is attacked: what its cases are, and how one is tried.

Cases come in portions. For each, Hypothesis makes values that nobody expects; a case is something sound in which some
of them stand. A portion follows from the seed and its number alone. (Hypothesis could make whole cases too, in five
times the time that it takes to try them.)
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from time import monotonic
from types import FrameType
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

Case = dict[str, Any]  # of JSON values, so that it can be kept

PORTION = 500  # cases that share the values which Hypothesis made
VALUES = 60
SECONDS_A_CASE = 240  # on a busy machine, on which a new process takes a minute
MOST_ALIKE = 3  # of what broke at the same place that are kept


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


@dataclass
class Found:
    """What came of an area: how many cases, and where what broke is kept, by what broke."""

    cases: int = 0
    broke: int = 0
    alike: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def add(self, name: str, case: Case, error: BaseException, kept: Path) -> None:
        """Something broke: its case is kept as a file, unless there are such files enough."""
        self.broke += 1
        place = place_of(error)
        self.alike[place] = self.alike.get(place, 0) + 1
        if self.alike[place] <= MOST_ALIKE:
            self.said.append(f"{place}: {type(error).__name__}: {str(error)[:300]}")
            keep(name, case, f"{type(error).__name__}: {str(error)[:300]}", kept)


def place_of(error: BaseException) -> str:
    """The kind of the error and the last line of ours that it came through; of a sentence that is wrong, its words."""
    if isinstance(error, BrokenError):
        return str(error)[:40]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/site-packages/" not in frame.filename]
    last = frames[-1] if frames else None
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}" if last else type(error).__name__


def keep(name: str, case: Case, said: str, folder: Path) -> Path:
    """The case as a file that tests try again."""
    text = json.dumps({"area": name, "case": case, "said": said}, indent=1)
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{sha256(json.dumps(case).encode()).hexdigest()[:10]}.json"
    path.write_text(text + "\n", "utf8")
    return path


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


@dataclass(frozen=True)
class Plan:
    """How often an area is tried, from which seed, and for how long at the most; where what broke goes, and the
    case in hand, for whoever finds the process dead."""

    seed: int
    cases: int
    seconds: float
    kept: Path
    in_hand: Path


def attack(name: str, area: Area, plan: Plan) -> Found:
    """Try so many cases, or fewer where the time is up before."""
    found, until = Found(), monotonic() + plan.seconds
    with plan.in_hand.open("wb", buffering=0) as in_hand:
        for portion in range(-(-plan.cases // PORTION)):
            words = f"{plan.seed}-{name}-{portion}"
            random, values = Random(words), drawn(area.values(), words)
            for _ in range(min(PORTION, plan.cases - portion * PORTION)):
                if monotonic() > until:
                    break
                case = area.case(random, values)
                _note(in_hand.fileno(), case)
                found.cases += 1
                _try(area, case, found, (name, plan.kept))
            print(f"{name}: {found.cases:,} cases, {found.broke} broke", file=sys.stderr, flush=True)
    try:
        area.close()
    except Exception as error:
        found.add(name, {"all": True}, error, plan.kept)
    return found


def drawn(strategy: SearchStrategy[Any], words: str) -> list[Any]:
    """Values that Hypothesis makes; the same for the same words."""
    found: list[Any] = []

    def taken(value: Any) -> None:
        found.append(value)

    number = int.from_bytes(sha256(words.encode()).digest()[:8], "big")
    seed(number)(settings(
        max_examples=VALUES, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck))(given(strategy)(taken)))()
    return found


def _note(file: int, case: Case) -> None:
    """Without opening the file anew, which takes longer than most cases."""
    data = json.dumps(case).encode()
    os.pwrite(file, data, 0)
    os.ftruncate(file, len(data))


def _try(area: Area, case: Case, found: Found, place: tuple[str, Path]) -> None:
    try:
        with at_most(SECONDS_A_CASE):
            area.trial(case)
    except Exception as error:
        found.add(place[0], case, error, place[1])
