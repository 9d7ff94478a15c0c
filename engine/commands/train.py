"""Make a shipped rig from nothing: its target where that is our own, drafters, prompt files, scores, model card.

    python -m engine train --rig demo

Every stage is seeded and goes on where it was stopped; what is finished is not done again (--again does).
"""

from __future__ import annotations

import argparse

from engine.commands import flags, values
from engine.commands.verb import NOT_DONE, Result, Verb
from engine.training.__main__ import STAGES, made


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    verb.add_argument("--rig", type=values.one_of(*STAGES), default="demo", metavar="NAME",
                      help=f"{' or '.join(STAGES)} (default: demo)")
    verb.add_argument("--again", action="store_true", help="run stages whose results exist, too")
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Run every stage whose result is missing."""
    return {"rig": choice.rig, "status": made(choice.rig, choice.again)}


def summary(result: Result) -> str:
    """Whether the rig is there."""
    return "A stage failed; what was finished is kept." if result["status"] else f"The rig {result['rig']} is made."


def status(result: Result) -> int:
    """1 where a stage failed."""
    return NOT_DONE if result["status"] else 0


VERB = Verb(__doc__, add, run, summary, status)
