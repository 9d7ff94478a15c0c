"""Where a tree pays: what each proposal and row of recorded runs earned, and what other trees would have.

    python -m engine anatomy --trace run.jsonl.gz other.jsonl.gz
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.commands import flags, values
from engine.commands.flags import Result, Verb
from engine.lab.anatomy import anatomy
from engine.lab.anatomy_words import sentences
from engine.trace import load


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    verb.add_argument("--trace", type=values.readable_file, nargs="+", required=True, metavar="FILE",
                      help="recorded runs, of any engine; several are taken together")
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Take the runs apart, and return what --json prints."""
    anatomy_ = anatomy([load(path) for path in choice.trace])
    return {**asdict(anatomy_), "sentences": sentences(anatomy_)}


def summary(result: Result) -> str:
    """The sentences, with a heading each."""
    lines = [f"{result['rounds']} rounds of {result['runs']} runs; 95 % intervals: of shares by Wilson, of means by "
             "resampling rounds."]
    for name, words in result["sentences"].items():
        lines += ["", f"{name.capitalize()}:", *(f"  {sentence}" for sentence in words)]
    return "\n".join(lines)


VERB = Verb(__doc__, add, run, summary)
