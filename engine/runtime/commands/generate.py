"""`generate`: answer one prompt and stream the text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.methods import METHODS
from engine.pace import AUTO, FIXED, MOST_AUTO
from engine.records import Ask, Sampling
from engine.runtime.chat import pieces
from engine.runtime.live import LiveRig
from engine.runtime.rigs import DTYPES, Rig, open_rig
from engine.trace import Entry, Line, committed_ids, dump, gather, tau


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    add_ask(verb)
    verb.add_argument("--prompt", required=True)
    verb.add_argument("--trace", type=Path, help="write the run to this file (.jsonl or .jsonl.gz)")
    verb.add_argument("--json", action="store_true")


def add_ask(verb: argparse.ArgumentParser) -> None:
    """The flags of everything that runs a prompt."""
    verb.add_argument("--rig", default="demo")
    verb.add_argument("--method", default="ddtree", help=f"one of {', '.join(METHODS)}")
    verb.add_argument("--budget", type=budget, default=64, help="drafted nodes per round, or auto")
    verb.add_argument("--split", default="total", help="what the budget means for merged: total or each")
    verb.add_argument("--heads", nargs="*", default=(), help="drafters by name, in head order")
    verb.add_argument("--turn", type=turn, action="append", default=[], metavar="ROLE:TEXT",
                      help="an earlier turn of the conversation (system, user, assistant); as often as there were")
    verb.add_argument("--temperature", type=float, default=0.0)
    verb.add_argument("--top-k", type=int, default=0)
    verb.add_argument("--top-p", type=float, default=1.0)
    verb.add_argument("--seed", type=int, default=0)
    verb.add_argument("--max-tokens", type=int, default=256)
    verb.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")


def budget(text: str) -> int | str:
    """A number of nodes, or ``auto``."""
    return AUTO if text == AUTO else int(text)


def turn(text: str) -> tuple[str, str]:
    """ROLE:TEXT in its two parts."""
    role, _, said = text.partition(":")
    return role, said


def ask_of(choice: argparse.Namespace) -> Ask:
    """What the flags ask."""
    sampling = Sampling(choice.temperature, choice.top_k, choice.top_p, choice.seed)
    nodes, pace = (MOST_AUTO, AUTO) if choice.budget == AUTO else (choice.budget, FIXED)
    return Ask(choice.prompt, choice.method, nodes, choice.max_tokens, sampling, choice.split, tuple(choice.heads),
               pace, tuple(choice.turn))


def run(choice: argparse.Namespace) -> dict[str, Any]:
    """Run, stream the text, and return what --json prints."""
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
    """The text of tokens as they arrive; a character that spans tokens is shown when it is whole."""
    shown = pieces(rig.tokenizer, token_ids)
    return "".join(piece if isinstance(piece := shown[token], str) else "" for token in token_ids)


def summary(result: dict[str, Any]) -> str:
    """What people read below the text."""
    return (f"\n\nτ {result['tau']} tokens per round (root included), {result['rounds']} rounds, "
            f"{result['tokens_per_second']} tokens/s; ended by {result['end']}.")
