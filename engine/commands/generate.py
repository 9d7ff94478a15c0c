"""Answer one prompt and stream the text.

    python -m engine generate --method ddtree --budget 64 --prompt "What is a draft tree?"
"""

from __future__ import annotations

import argparse

from engine.commands import flags, values
from engine.commands.verb import Result, Verb
from engine.records import Ask, Sampling
from engine.requests.turns import ROLES
from engine.runtime.rigs.chat import pieces
from engine.runtime.rigs.live import LiveRig
from engine.runtime.rigs.rigs import Rig, open_rig
from engine.trace import Entry, Line, committed_ids, dump, gather, tau


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


def ask_of(choice: argparse.Namespace) -> Ask:
    """The ask that the flags describe."""
    sampling = Sampling(choice.temperature, choice.top_k, choice.top_p, choice.seed)
    nodes, pace = flags.nodes_and_pace(choice.budget)
    return Ask(choice.prompt, method=choice.method, budget=nodes, max_tokens=choice.max_tokens, sampling=sampling,
               split=choice.split, drafters=tuple(choice.drafters), pace=pace, turns=tuple(choice.turn))


def run(choice: argparse.Namespace) -> Result:
    """Answer the prompt, stream the text, and return what --json prints."""
    rig = open_rig(choice.rig, choice.dtype)
    lines: list[Line] = []
    for line in LiveRig(rig).run(ask_of(choice)):
        lines.append(line)
        if isinstance(line, Entry):
            print(text_of(rig, line.round.committed.tolist()), end="", flush=True)
    trace = gather(lines)
    if choice.trace:
        dump(trace, choice.trace)
    rounds = [entry.round for entry in trace.entries]
    token_ids = committed_ids(rounds)
    seconds = sum(sum(made.seconds.values()) for made in rounds)
    return {
        "text": rig.tokenizer.decode(token_ids), "token_ids": token_ids, "tau": round(tau(rounds), 4),
        "rounds": len(rounds), "acceptance_lengths": [len(made.acceptance.keep) for made in rounds],
        "rows": [len(made.tree) for made in rounds],
        "tokens_per_second": round(len(token_ids) / seconds, 1) if seconds else 0.0, "end": trace.end.reason,
        "note": trace.header.note}


def text_of(rig: Rig, token_ids: list[int]) -> str:
    """The text of tokens so far; a character that spans tokens is left out until it is whole."""
    shown = pieces(rig.tokenizer, token_ids)
    return "".join(piece if isinstance(piece := shown[token], str) else "" for token in token_ids)


def summary(result: Result) -> str:
    """The summary printed below the text."""
    return (f"\n\nτ {result['tau']} tokens per round (root included), {result['rounds']} rounds, "
            f"{result['tokens_per_second']} tokens/s; ended by {result['end']}.")


VERB = Verb(__doc__, add, run, summary)
