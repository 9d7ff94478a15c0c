"""The standing attack: more than 100,000 cases over command lines, rig folders, traces, HTTP and a browser.

    python -m tests.attack                                        # all areas, from the fixed seed and a fresh one
    python -m tests.attack --areas traces --seeds 7 --cases 5000 --minutes 10

Each area runs in its own process with bounded memory and time, two at a time (``--at-once``). A failing case is shrunk
and kept in ``tests/attack/kept``, where ``tests/attack/test_attack.py`` tries it again. The exit status is 1 if a case
failed or fewer cases were tried than requested."""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from multiprocessing import get_context
from secrets import randbelow
from time import monotonic

from tests.attack.area import AREAS, attack_here

FIXED_SEED = 20261122
GRACE_SECONDS = 400  # beyond the limit, for starting and for shrinking a failing case


def attack_in_process(area: str, seed: int, cases: int, until: float) -> bool:
    """Attack an area in a new process, which a case may kill; return whether nothing failed."""
    began = monotonic()
    process = get_context("spawn").Process(target=attack_here, args=(area, seed, cases, until))
    process.start()
    process.join(max(0.0, until - began) + GRACE_SECONDS)
    process.kill()
    ended = {0: "all is well", None: "not in time"}.get(process.exitcode, f"broke, exit status {process.exitcode}")
    print(f"{area:14} seed {seed}: {cases:,} cases, {monotonic() - began:.0f} s, {ended}", flush=True)
    return process.exitcode == 0


def main() -> int:
    """Attack; return 0 if nothing failed and every case was tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", nargs="+", choices=list(AREAS), default=list(AREAS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[FIXED_SEED, randbelow(2**32)], metavar="SEED")
    usual = ", ".join(f"{name} {cases:,}" for name, (cases, _) in AREAS.items())
    parser.add_argument("--cases", type=int, metavar="N", help=f"of each area (default: {usual}), shared by the seeds")
    parser.add_argument("--minutes", type=float, default=40.0, help="for all together (default: 40)")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="processes (default: 2, one for a core)")
    args = parser.parse_args()
    print(f"Seeds: {', '.join(map(str, args.seeds))}", flush=True)
    until = monotonic() + 60 * args.minutes
    with ThreadPoolExecutor(max(1, args.at_once)) as processes:
        results = [
            processes.submit(attack_in_process, area, seed, ceil((args.cases or AREAS[area][0]) / len(args.seeds)),
                             until)
            for area in args.areas for seed in args.seeds]
    return int(not all(result.result() for result in results))


if __name__ == "__main__":
    sys.exit(main())
