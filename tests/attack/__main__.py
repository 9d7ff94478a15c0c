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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from secrets import randbelow
from time import monotonic
from types import MappingProxyType

from tests.attack.area import keep

FIXED_SEED = 20261122
CASES: Mapping[str, int] = MappingProxyType({
    "command_line": 50_000, "checkpoints": 4_000, "traces": 42_000, "http": 12_000, "servers": 6_000, "browser": 240})
KEPT = Path(__file__).parent / "kept"
PATIENCE_SECONDS = 240  # to start, and to end after the time is up


@dataclass(frozen=True)
class Row:
    """What came of one area from one seed."""

    area: str
    seed: int
    cases: int
    wanted: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    broke: int
    said: Sequence[str]


def flags() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[FIXED_SEED, randbelow(2**32)], metavar="SEED")
    parser.add_argument("--cases", type=int, metavar="N", help="of each area (default: "
                        f"{', '.join(f'{name} {cases:,}' for name, cases in CASES.items())}), shared by the seeds")
    parser.add_argument("--minutes", type=float, default=40.0, help="for all together (default: 40)")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="processes (default: 2, one for a core)")
    return parser


def tried(area: str, seed: int, cases: int, seconds: float) -> Row:
    """An area in a process of its own."""
    began = monotonic()
    with tempfile.TemporaryDirectory() as folder:
        in_hand, result = Path(folder, "in-hand.json"), Path(folder, "result.json")
        words = [sys.executable, "-m", "tests.attack.one_area", area, str(seed), str(cases), str(int(seconds)),
                 str(KEPT), str(in_hand), str(result)]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            try:
                status: object = process.wait(seconds + PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                status = "no end"
        if status == 0 and result.exists():
            return Row(area, seed, wanted=cases, seconds=monotonic() - began, **json.loads(result.read_text()))
        if in_hand.exists():
            keep(area, json.loads(in_hand.read_text()), f"The process ended with {status}.", KEPT)
        return Row(area, seed, 0, cases, monotonic() - began, 0, 0, 1, [f"The process ended with {status}."])


def main(words: Sequence[str]) -> int:
    """Attack, print the table; 0 where nothing broke and everything was tried."""
    choice = flags().parse_args(words)
    print(f"Seeds: {', '.join(map(str, choice.seeds))}", flush=True)
    until = monotonic() + 60 * choice.minutes
    wanted = [(area, seed, -(-(choice.cases or CASES[area]) // len(choice.seeds)))
              for area in choice.areas for seed in choice.seeds]
    with ThreadPoolExecutor(max(1, choice.at_once)) as processes:
        rows = list(processes.map(
            lambda task: tried(task[0], task[1], task[2], max(1.0, until - monotonic())), wanted))
    print(table(rows))
    return int(any(row.broke or row.cases < row.wanted for row in rows))


def table(rows: Sequence[Row]) -> str:
    """The rows for people, and what broke."""
    lines = [f"{'area':14}{'seed':>12}{'cases':>10}{'seconds':>10}{'cpu s':>8}{'peak MiB':>10}"
             f"{'broke':>7}"]
    lines += [f"{row.area:14}{row.seed:>12}{row.cases:>10,}{row.seconds:>10.0f}{row.cpu_seconds:>8.0f}"
              f"{row.peak_mib:>10.0f}{row.broke:>7}"
              for row in rows]
    seconds, processor, broke = (sum(getattr(row, name) for row in rows) for name in (
        "seconds", "cpu_seconds", "broke"))
    lines.append(f"{'all':26}{sum(row.cases for row in rows):>10,}{seconds:>10.0f}{processor:>8.0f}"
                 f"{max(row.peak_mib for row in rows):>10.0f}{broke:>7}")
    lines += [f"{row.area}: {said}" for row in rows for said in row.said]
    short = [row for row in rows if row.cases < row.wanted]
    lines += [f"{row.area}, seed {row.seed}: only {row.cases:,} of {row.wanted:,} cases were tried." for row in short]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
