"""An area that is attacked: a strategy of cases, the property that each has to hold, and the search for the smallest
case that breaks it."""

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

Case = dict[str, Any]  # of JSON values, so that it can be kept
KEPT = Path(__file__).parent / "kept"
PORTION = 500  # cases of one run of Hypothesis, which remembers them
MAX_BROKEN = 3  # portions, after which an area ends
SECONDS_PER_CASE = 240  # on a busy machine, on which a new process takes a minute
AREAS: Mapping[str, tuple[int, int]] = MappingProxyType({  # by their modules: cases of the standing attack, and GiB of
    # address space (0: any), most of which libraries map and never touch
    "command_line": (50_000, 8), "rigs": (6_000, 8), "traces": (42_000, 3), "http": (12_000, 4), "browser": (240, 0)})


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

    def close(self) -> None:
        """Nothing more is tried; raises what is wrong with what came of all cases together."""


def area_named(name: str) -> Area:
    """The area of that name; their modules import much, so only the one that is wanted is."""
    area: Area = import_module(f"tests.attack.{name}").Attack()
    return area


def attack(area: Area, name: str, seed: str, count: int, kept: Path) -> str:
    """Try so many cases, the same for the same seed. What the smallest that breaks raised; that one is then in
    ``kept``, where each case is while it is tried, since its process may die of it."""
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
    except (Exception, BaseExceptionGroup) as error:  # several, if cases break in several ways
        return f"{type(error).__name__}: {str(error)[:300]}"
    kept.unlink(missing_ok=True)
    return ""


def attack_here(name: str, seed: int, wanted: int, until: float) -> None:
    """Try the cases that are wanted, and end this process: with 1 if one broke or the time was up before."""
    sys.stdout = open(os.devnull, "w", encoding="utf8")  # noqa: SIM115 (until the process ends)
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    if limit := AREAS[name][1] * 2**30:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    area, tried, reports = area_named(name), 0, list[str]()
    while tried < wanted and monotonic() < until and len(reports) < MAX_BROKEN:
        count = min(PORTION, wanted - tried)
        kept = KEPT / f"{name}-{seed}-{tried}.json"
        if report := attack(area, name, f"{seed}-{name}-{tried}", count, kept):
            reports.append(report)
        tried += count
        print(f"{name} seed {seed}: {tried:,} of {wanted:,} cases.", *reports[-1:], file=sys.stderr, flush=True)
    area.close()
    os._exit(int(tried < wanted or bool(reports)))  # whatever threads a case left do not hold it up
