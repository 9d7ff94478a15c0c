"""The standing attack: more than 100,000 cases over command lines, traces, HTTP, attached servers and a browser.

    python -m tests.attack                                        # all of it, from the fixed seed and a fresh one
    python -m tests.attack --areas traces --seeds 7 --cases 5000 --minutes 10

Each area runs in a process of its own, whose memory and time are bounded, two of them at a time (``--at-once``). What
breaks is made as small as it gets and lies in ``tests/attack/kept`` afterwards, where ``tests/attack/test_attack.py``
tries it again. The exit status is 1 if anything broke or fewer cases were tried than asked for.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from secrets import randbelow
from time import monotonic

from tests.attack.area import AREAS, Area, Case, area_named, attack, keep

FIXED_SEED = 20261122
PORTION = 500  # cases of one run of Hypothesis, which remembers them
MAX_BROKEN = 3  # portions, after which an area ends
PATIENCE_SECONDS = 400  # to start, and to make what broke small after the time is up


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


def flags() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", nargs="+", choices=list(AREAS), default=list(AREAS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[FIXED_SEED, randbelow(2**32)], metavar="SEED")
    usual = ", ".join(f"{name} {bounds.cases:,}" for name, bounds in AREAS.items())
    parser.add_argument("--cases", type=int, metavar="N", help=f"of each area (default: {usual}), shared by the seeds")
    parser.add_argument("--minutes", type=float, default=40.0, help="for all together (default: 40)")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="processes (default: 2, one for a core)")
    return parser


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


def attacked(outcome: Outcome, until: float) -> Outcome:
    """An area, tried until then in a process of its own, which may die of it."""
    began = monotonic()
    with tempfile.TemporaryDirectory() as folder:
        process = get_context("spawn").Process(target=attack_within, args=(outcome, until, Path(folder)))
        process.start()
        process.join(max(0.0, until - began) + PATIENCE_SECONDS)
        process.kill()
        in_hand, result = Path(folder, "in-hand.json"), Path(folder, "outcome.json")
        if process.exitcode == 0 and result.exists():
            outcome = Outcome(**json.loads(result.read_text("utf8")))
        else:
            outcome.reports = [f"The process ended with {process.exitcode} (None: not in time)."]
            if in_hand.exists():
                keep(outcome.area, json.loads(in_hand.read_text("utf8")), outcome.reports[0])
    outcome.seconds = monotonic() - began
    return outcome


def main(words: Sequence[str]) -> int:
    """Attack, print a table; 0 if nothing broke and everything was tried."""
    choice = flags().parse_args(words)
    print(f"Seeds: {', '.join(map(str, choice.seeds))}", flush=True)
    until = monotonic() + 60 * choice.minutes
    wanted = [Outcome(area, seed, -(-(choice.cases or AREAS[area].cases) // len(choice.seeds)))
              for area in choice.areas for seed in choice.seeds]
    with ThreadPoolExecutor(max(1, choice.at_once)) as processes:
        outcomes = list(processes.map(lambda outcome: attacked(outcome, until), wanted))
    for row in outcomes:
        print(f"{row.area:14} seed {row.seed}: {row.cases:,} of {row.wanted:,} cases, {row.seconds:.0f} s, "
              f"{row.cpu_seconds:.0f} cpu s, peak {row.peak_mib:.0f} MiB, {len(row.reports)} broke")
        for report in row.reports:
            print(f"  {report}")
    print(f"{sum(row.cases for row in outcomes):,} cases, {sum(len(row.reports) for row in outcomes)} broke")
    return int(any(row.reports or row.cases < row.wanted for row in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
