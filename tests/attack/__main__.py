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
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import randbelow
from time import monotonic

from tests.attack.area import AREAS, Plan, keep

FIXED_SEED = 20261122
PATIENCE_SECONDS = 240  # to start, and to end after the time is up


@dataclass(frozen=True)
class Row:
    """What came of one area from one seed."""

    area: str
    seed: int
    wanted: int
    seconds: float
    cases: int = 0
    cpu_seconds: float = 0
    peak_mib: float = 0
    broke: int = 1
    said: Sequence[str] = ()


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


def tried(area: str, seed: int, cases: int, seconds: float) -> Row:
    """An area in a process of its own."""
    began = monotonic()
    with tempfile.TemporaryDirectory() as folder:
        in_hand, result = Path(folder, "in-hand.json"), Path(folder, "result.json")
        plan = json.dumps(asdict(Plan(area, seed, cases, seconds, folder)))
        with subprocess.Popen([sys.executable, "-m", "tests.attack.area", plan], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL) as process:
            try:
                status: object = process.wait(seconds + PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                status = "no end"
        if status == 0 and result.exists():
            outcome = json.loads(result.read_text())
            return Row(seed=seed, wanted=cases, seconds=monotonic() - began, **outcome)
        said = f"The process ended with {status}."
        if in_hand.exists():
            keep(area, json.loads(in_hand.read_text()), said)
        return Row(area, seed, cases, monotonic() - began, said=[said])


def main(words: Sequence[str]) -> int:
    """Attack, print the table; 0 where nothing broke and everything was tried."""
    choice = flags().parse_args(words)
    print(f"Seeds: {', '.join(map(str, choice.seeds))}", flush=True)
    until = monotonic() + 60 * choice.minutes
    wanted = [(area, seed, -(-(choice.cases or AREAS[area].cases) // len(choice.seeds)))
              for area in choice.areas for seed in choice.seeds]
    with ThreadPoolExecutor(max(1, choice.at_once)) as processes:
        rows = list(processes.map(lambda task: tried(task[0], task[1], task[2], max(1.0, until - monotonic())), wanted))
    print(table(rows))
    return int(any(row.broke or row.cases < row.wanted for row in rows))


def table(rows: Sequence[Row]) -> str:
    """The rows for people, and what broke."""
    whole = Row("all", 0, 0, sum(row.seconds for row in rows), sum(row.cases for row in rows),
                sum(row.cpu_seconds for row in rows), max(row.peak_mib for row in rows), sum(row.broke for row in rows))
    lines = [f"{'area':14}{'seed':>12}{'cases':>10}{'seconds':>10}{'cpu s':>8}{'peak MiB':>10}{'broke':>7}"]
    lines += [f"{row.area:14}{'' if row is whole else row.seed:>12}{row.cases:>10,}{row.seconds:>10.0f}"
              f"{row.cpu_seconds:>8.0f}{row.peak_mib:>10.0f}{row.broke:>7}" for row in (*rows, whole)]
    lines += [f"{row.area}: {said}" for row in rows for said in row.said]
    lines += [f"{row.area}, seed {row.seed}: only {row.cases:,} of {row.wanted:,} cases were tried."
              for row in rows if row.cases < row.wanted]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
