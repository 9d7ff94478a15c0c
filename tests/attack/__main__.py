"""The standing attack: more than 100,000 cases over command lines, traces, HTTP, attached servers and a browser.

    python -m tests.attack                                        # all of it, from the fixed seed and a fresh one
    python -m tests.attack --areas traces --seeds 7 --cases 5000 --minutes 10

Each area runs in a process of its own, whose memory and time are bounded, two of them at a time (``--at-once``). It
prints a table, with the processor time that each took; what broke lies in
``tests/attack/kept`` afterwards, where ``tests/attack/test_kept.py`` tries it again. The exit status is 1 where
anything broke or fewer cases were tried than asked for.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from secrets import randbelow
from time import monotonic

from tests.attack.area import AREAS, Outcome, attack, keep

FIXED_SEED = 20261122
PATIENCE_SECONDS = 240  # to start, and to end after the time is up
HEADINGS = ("area", "seed", "cases", "seconds", "cpu s", "peak MiB", "broke")


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


def attacked(outcome: Outcome, until: float) -> Outcome:
    """An area, tried until then in a process of its own, which may die of it."""
    began, seconds = monotonic(), max(1.0, until - monotonic())
    with tempfile.TemporaryDirectory() as folder:
        process = get_context("spawn").Process(target=attack, args=(outcome, seconds, Path(folder)))
        process.start()
        process.join(seconds + PATIENCE_SECONDS)
        process.kill()
        in_hand, result = Path(folder, "in-hand.json"), Path(folder, "outcome.json")
        if process.exitcode == 0 and result.exists():
            outcome = Outcome(**json.loads(result.read_text("utf8")))
        else:
            outcome.broke, outcome.reports = 1, [f"The process ended with {process.exitcode} (None: not in time)."]
            if in_hand.exists():
                keep(outcome.area, json.loads(in_hand.read_text("utf8")), outcome.reports[0])
    outcome.seconds = monotonic() - began
    return outcome


def main(words: Sequence[str]) -> int:
    """Attack, print the table; 0 if nothing broke and everything was tried."""
    choice = flags().parse_args(words)
    print(f"Seeds: {', '.join(map(str, choice.seeds))}", flush=True)
    until = monotonic() + 60 * choice.minutes
    wanted = [Outcome(area, seed, -(-(choice.cases or AREAS[area].cases) // len(choice.seeds)))
              for area in choice.areas for seed in choice.seeds]
    with ThreadPoolExecutor(max(1, choice.at_once)) as processes:
        outcomes = list(processes.map(lambda outcome: attacked(outcome, until), wanted))
    print(table(outcomes))
    return int(any(outcome.broke or outcome.cases < outcome.wanted for outcome in outcomes))


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes for people, and what broke."""
    rows = [(row.area, str(row.seed), row.cases, row.seconds, row.cpu_seconds, row.peak_mib, row.broke)
            for row in outcomes]
    numbers = list(zip(*rows, strict=True))[2:]
    rows.append(("all", "", *map(sum, numbers[:3]), max(numbers[3]), sum(numbers[4])))
    lines = ["{:14}{:>12}{:>10}{:>10}{:>8}{:>10}{:>7}".format(*HEADINGS)]
    lines += ["{:14}{:>12}{:>10,}{:>10.0f}{:>8.0f}{:>10.0f}{:>7}".format(*row) for row in rows]
    lines += [f"{outcome.area}: {report}" for outcome in outcomes for report in outcome.reports]
    lines += [f"{outcome.area}, seed {outcome.seed}: only {outcome.cases:,} of {outcome.wanted:,} cases were tried."
              for outcome in outcomes if outcome.cases < outcome.wanted]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
