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
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from secrets import randbelow
from time import monotonic

from tests.attack.area import AREAS, attack_here, keep

FIXED_SEED = 20261122
PATIENCE_SECONDS = 400  # to start, and to make what broke small after the time is up


def attacked(area: str, seed: int, wanted: int, until: float) -> bool:
    """Attack an area in a process of its own, which may die of it, and print what came of it; True if all is well."""
    began = monotonic()
    with tempfile.TemporaryDirectory() as folder:
        process = get_context("spawn").Process(target=attack_here, args=(area, seed, wanted, until, Path(folder)))
        process.start()
        process.join(max(0.0, until - began) + PATIENCE_SECONDS)
        process.kill()
        in_hand, outcome = Path(folder, "in-hand.json"), Path(folder, "outcome.json")
        if process.exitcode == 0 and outcome.exists():
            tried, reports = json.loads(outcome.read_text("utf8"))
        else:
            tried, reports = 0, [f"The process ended with {process.exitcode} (None: not in time)."]
            if in_hand.exists():
                keep(area, json.loads(in_hand.read_text("utf8")), reports[0])
    print(f"{area:14} seed {seed}: {tried:,} of {wanted:,} cases, {monotonic() - began:.0f} s, {len(reports)} broke",
          *reports, sep="\n  ", flush=True)
    return tried >= wanted and not reports


def main() -> int:
    """Attack; 0 if nothing broke and everything was tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", nargs="+", choices=list(AREAS), default=list(AREAS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[FIXED_SEED, randbelow(2**32)], metavar="SEED")
    usual = ", ".join(f"{name} {bounds.cases:,}" for name, bounds in AREAS.items())
    parser.add_argument("--cases", type=int, metavar="N", help=f"of each area (default: {usual}), shared by the seeds")
    parser.add_argument("--minutes", type=float, default=40.0, help="for all together (default: 40)")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="processes (default: 2, one for a core)")
    choice = parser.parse_args()
    print(f"Seeds: {', '.join(map(str, choice.seeds))}", flush=True)
    until = monotonic() + 60 * choice.minutes
    wanted = {area: choice.cases or AREAS[area].cases for area in choice.areas}
    with ThreadPoolExecutor(max(1, choice.at_once)) as processes:
        results = [processes.submit(attacked, area, seed, -(-cases // len(choice.seeds)), until)
                   for area, cases in wanted.items() for seed in choice.seeds]
    return int(not all(result.result() for result in results))


if __name__ == "__main__":
    sys.exit(main())
