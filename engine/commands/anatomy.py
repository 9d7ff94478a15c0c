"""Where a tree pays: what each proposal and row of recorded runs earned, and what other trees would have.

    python -m engine anatomy --trace run.jsonl.gz other.jsonl.gz
"""

import argparse
from dataclasses import asdict

from engine.commands import Outcome, flags
from engine.lab.anatomy import anatomy, sentences
from engine.trace import load


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trace", type=flags.readable_file, nargs="+", required=True, metavar="FILE",
                        help="recorded runs, of any engine; several are taken as one")


def run(args: argparse.Namespace) -> Outcome:
    runs = anatomy([load(path) for path in args.trace])
    by_topic = sentences(runs)
    lines = [f"{runs.rounds} rounds of {runs.runs} runs; 95 % intervals: of shares by Wilson, of means by resampling "
             "rounds."]
    for topic, words in by_topic.items():
        lines += ["", f"{topic.capitalize()}:", *(f"  {sentence}" for sentence in words)]
    return Outcome({**asdict(runs), "sentences": by_topic}, "\n".join(lines))
