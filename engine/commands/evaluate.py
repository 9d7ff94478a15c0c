"""What the demo rig can do: exact answers, functions that run, and how much its drafters get accepted.

    python -m engine evaluate --json

Greedy, on prompts of the test split, which training never uses; with --reworded on prompts of the same domains that a
person worded instead of a template.
"""

from __future__ import annotations

import argparse

from engine.commands import flags, values
from engine.commands.verb import Result, Verb
from engine.errors import RequestError
from engine.recipes.evaluate import CHECKS, domain_scores
from engine.requests.rig_names import EMBEDDED_RIG
from engine.serving.rigs import open_rig


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    flags.add_rig(verb)
    flags.add_dtype(verb)
    verb.add_argument("--prompts", type=values.whole(1, flags.MOST_PROMPTS), default=200, metavar="N",
                      help="test prompts per domain (default: 200)")
    verb.add_argument("--domains", type=values.one_of(*CHECKS), nargs="+", default=["math", "code", "mixed"],
                      metavar="DOMAIN", help=f"of {', '.join(CHECKS)}")
    verb.add_argument("--reworded", action="store_true",
                      help="all prompts that a person worded, instead of --prompts of the test split")
    verb.add_argument("--budget", type=values.budget, default=64, metavar="NODES")
    flags.add_max_tokens(verb, 256)
    verb.add_argument("--run-code", action="store_true", help="run the programs that the model writes, each in a "
                      "process without files, network or much memory, to count those that are right (always for the "
                      f"rig {EMBEDDED_RIG}, which learnt from generators of ours)")
    flags.add_json(verb)
    verb.set_defaults(rig=EMBEDDED_RIG)


def run(choice: argparse.Namespace) -> Result:
    """Evaluate every domain, and return what --json prints."""
    if choice.reworded and "mixed" in choice.domains:
        raise RequestError("There are no reworded prompts of the domain mixed; choose --domains math code explain.")
    choice.run_code = choice.run_code or choice.rig == EMBEDDED_RIG
    rig = open_rig(choice.rig, choice.dtype)
    scores = {domain: domain_scores(rig, domain, choice) for domain in choice.domains}
    for domain, found in scores.items():
        print(domain + ": " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
    asked = "reworded" if choice.reworded else choice.prompts
    return {"prompts": asked, "budget": choice.budget, "dtype": rig.dtype, **scores}


def summary(result: Result) -> str:
    """A sentence on what the scores were measured with."""
    return f"{result['prompts']} prompts a domain, node budget {result['budget']}, {result['dtype']}."


VERB = Verb(__doc__, add, run, summary)
