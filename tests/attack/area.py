"""An area of the attack: a strategy that draws cases, the property that each case must hold, and a Hypothesis run that
shrinks failing cases."""

import json
import os
import resource
import sys
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.strategies import SearchStrategy

from tests.running import at_most

Case = dict[str, Any]  # JSON values, so that a case can be saved
KEPT = Path(__file__).parent / "kept"
BATCH_SIZE = 500  # cases of one Hypothesis run; it holds all of them in memory
MAX_FAILED_BATCHES = 3
SECONDS_PER_CASE = 240  # a busy machine takes a minute to start a process
AREAS: Mapping[str, tuple[int, int]] = MappingProxyType({  # module: number of cases, limit of address space in GiB (0:
    # none); libraries map far more than they touch
    "command_line": (50_000, 8), "rigs": (6_000, 8), "traces": (42_000, 3), "http": (12_000, 4), "browser": (240, 0)})


class BrokenError(Exception):
    """Report that the answer to a case breaks a property."""


def check_sentence(reply: object, max_length: int = 600) -> None:
    """Raise BrokenError unless the refusal is one sentence."""
    text = str(reply)
    if not (text.endswith((".", "?")) and text.isprintable() and len(text) <= max_length):
        raise BrokenError(f"No sentence: {text[:300]!r}")


class Area:
    """Attack one part of Canopy that reads input from strangers."""

    cases: SearchStrategy[Case]

    def trial(self, case: Case) -> None:
        """Try a case. Raises BrokenError if the answer breaks a property."""
        raise NotImplementedError

    def close(self) -> None:
        """Release everything. Raises BrokenError if all cases together broke a property."""


def area_named(name: str) -> Area:
    """Return the area of that name. Only its own module is imported, since each imports much."""
    area: Area = import_module(f"tests.attack.{name}").Attack()
    return area


def attack(area: Area, name: str, seed: str, count: int, kept: Path) -> str:
    """Try ``count`` cases drawn from the seed; return what the smallest failing one raised, or "".

    Each case is written to ``kept`` before it is tried, in case this process dies of it. The smallest failing one stays
    there.
    """
    @hypothesis.seed(int.from_bytes(sha256(seed.encode()).digest()[:8], "big"))
    @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
              verbosity=Verbosity.quiet, suppress_health_check=list(HealthCheck))
    @given(area.cases)
    def trial(case: Case) -> None:
        kept.write_text(json.dumps({"area": name, "case": case}, indent=1) + "\n", "utf8")
        with at_most(SECONDS_PER_CASE):
            area.trial(case)

    try:
        trial()
    except (Exception, BaseExceptionGroup) as error:  # a group if cases failed in several ways
        return f"{type(error).__name__}: {str(error)[:300]}"
    kept.unlink(missing_ok=True)
    return ""


def attack_here(name: str, seed: int, cases: int, until: float) -> None:
    """Try that many cases, then end this process: with status 1 if a case failed or time ran out."""
    sys.stdout = open(os.devnull, "w", encoding="utf8")  # noqa: SIM115 (until the process ends)
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    if limit := AREAS[name][1] * 2**30:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    area, tried, reports = area_named(name), 0, list[str]()
    while tried < cases and monotonic() < until and len(reports) < MAX_FAILED_BATCHES:
        count = min(BATCH_SIZE, cases - tried)
        kept = KEPT / f"{name}-{seed}-{tried}.json"
        if report := attack(area, name, f"{seed}-{name}-{tried}", count, kept):
            reports.append(report)
        tried += count
        print(f"{name} seed {seed}: {tried:,} of {cases:,} cases.", *reports[-1:], file=sys.stderr, flush=True)
    area.close()
    os._exit(int(tried < cases or bool(reports)))  # without waiting for threads that a case left
