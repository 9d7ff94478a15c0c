"""Makes a shipped rig from scratch: its target if that is Canopy's own, drafters, prompt files, scores, model card.

    python -m engine train --rig demo

Every stage is seeded and resumes where it was stopped; finished stages are skipped (--again runs them).
"""

from __future__ import annotations

import argparse

from engine.commands import flags, values
from engine.commands.verb import NOT_DONE, Result, Verb
from engine.recipes.__main__ import STAGES, made


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    verb.add_argument("--rig", type=values.one_of(*STAGES), default="demo", metavar="NAME",
                      help=f"{' or '.join(STAGES)} (default: demo)")
    verb.add_argument("--again", action="store_true", help="run stages whose results exist, too")
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Run every stage whose result is missing, and return what --json prints."""
    return {"rig": choice.rig, "status": made(choice.rig, choice.again)}


def summary(result: Result) -> str:
    """The sentence that says whether the rig is made."""
    return "A stage failed; what was finished is kept." if result["status"] else f"The rig {result['rig']} is made."


def status(result: Result) -> int:
    """The exit status: 1 if a stage failed."""
    return NOT_DONE if result["status"] else 0


VERB = Verb(__doc__, add, run, summary, status)
