"""The standing attack: more than 100,000 cases over command lines, traces, HTTP, attached servers and a browser.

    python -m tests.attack                                        # all of it, from the fixed seed and a fresh one
    python -m tests.attack --areas traces --seeds 7 --cases 5000 --minutes 10

Each area runs in a process of its own, whose memory and time are bounded, two of them at a time (``--at-once``). What
breaks is made as small as it gets and lies in ``tests/attack/kept`` afterwards, where ``tests/attack/test_attack.py``
tries it again. The exit status is 1 if anything broke or fewer cases were tried than asked for.
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

from tests.attack.area import AREAS, Outcome, attack_within, keep

FIXED_SEED = 20261122
PATIENCE_SECONDS = 400  # to start, and to make what broke small after the time is up


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
