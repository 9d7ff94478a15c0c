"""Answer one prompt and stream the text.

    python -m engine generate --method ddtree --budget 64 --prompt "What is a draft tree?"
"""

from __future__ import annotations

import argparse

from engine import open_rig
from engine.commands import flags, values
from engine.commands.flags import Result, Verb
from engine.records import Sampling
from engine.requests.prompts import ROLES
from engine.serving.rig import Answer, Rig
from engine.trace import dump, tau

PARTIAL = "\ufffd"  # stands for a character whose tokens are not all there yet


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    flags.add_rig(verb)
    flags.add_dtype(verb)
    flags.add_method(verb)
    flags.add_budget(verb)
    flags.add_split(verb)
    flags.add_drafters(verb)
    flags.add_sampling(verb)
    flags.add_max_tokens(verb, 256)
    verb.add_argument("--prompt", type=values.text, required=True, metavar="TEXT")
    verb.add_argument("--turn", type=values.turn, action="append", default=[], metavar="ROLE:TEXT",
                      help=f"an earlier turn of the conversation ({', '.join(ROLES)}); as often as there were")
    flags.add_out(verb, "--trace", "write the run to this file (.jsonl or .jsonl.gz)")
    flags.add_json(verb)


def answer_of(rig: Rig, choice: argparse.Namespace) -> Answer:
    """The answer that the flags describe."""
    nodes, pace = flags.nodes_and_pace(choice.budget)
    return rig.generate(
        choice.prompt, method=choice.method, budget=nodes, pace=pace, max_tokens=choice.max_tokens,
        sampling=Sampling(choice.temperature, choice.top_k, choice.top_p, choice.seed), split=choice.split,
        drafters=tuple(choice.drafters), turns=tuple(choice.turn))


def run(choice: argparse.Namespace) -> Result:
    """Answer the prompt, stream the text, and return what --json prints."""
    answer = answer_of(open_rig(choice.rig, choice.dtype), choice)
    rounds, printed = [], ""
    for round__ in answer:
        rounds.append(round__)
        text = answer.text.rstrip(PARTIAL)
        print(text[len(printed):], end="", flush=True)
        printed = text
    if choice.trace:
        dump(answer.trace, choice.trace)
    seconds = sum(sum(round_.seconds.values()) for round_ in rounds)
    return {
        "text": answer.text, "token_ids": answer.token_ids, "tau": round(tau(rounds), 4),
        "rounds": len(rounds), "acceptance_lengths": [len(round_.acceptance.keep) for round_ in rounds],
        "rows": [len(round_.tree) for round_ in rounds],
        "tokens_per_second": round(len(answer.token_ids) / seconds, 1) if seconds else 0.0,
        "end": answer.trace.end.reason, "note": answer.trace.header.note}


def summary(result: Result) -> str:
    """The summary printed below the text."""
    return (f"\n\nτ {result['tau']} tokens per round (root included), {result['rounds']} rounds, "
            f"{result['tokens_per_second']} tokens/s; ended by {result['end']}.")


VERB = Verb(__doc__, add, run, summary)
