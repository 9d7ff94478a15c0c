"""`python -m engine generate …`: one prompt from the command line.

With --json the last line of the output is one JSON object for machines.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from engine.errors import CanopyError
from engine.methods import METHODS
from engine.records import Ask, Sampling
from engine.runtime.chat import pieces
from engine.runtime.live import LiveRig
from engine.runtime.rigs import DTYPES, Rig, open_rig
from engine.trace import Entry, Line, committed_ids, dump, gather, tau


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m engine", description=__doc__)
    verb = top.add_subparsers(dest="verb", required=True).add_parser("generate", help="answer one prompt")
    verb.add_argument("--rig", default="demo")
    verb.add_argument("--method", default="ddtree", help=f"one of {', '.join(METHODS)}")
    verb.add_argument("--budget", type=int, default=64, help="drafted nodes per round")
    verb.add_argument("--split", default="total", help="what the budget means for merged: total or each")
    verb.add_argument("--heads", nargs="*", default=(), help="drafters by name, in head order")
    verb.add_argument("--prompt", required=True)
    verb.add_argument("--temperature", type=float, default=0.0)
    verb.add_argument("--top-k", type=int, default=0)
    verb.add_argument("--top-p", type=float, default=1.0)
    verb.add_argument("--seed", type=int, default=0)
    verb.add_argument("--max-tokens", type=int, default=256)
    verb.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")
    verb.add_argument("--trace", type=Path, help="write the run to this file (.jsonl or .jsonl.gz)")
    verb.add_argument("--json", action="store_true")
    return top


def generate(choice: argparse.Namespace) -> dict[str, object]:
    """Run, stream the text, and return what --json prints."""
    rig = open_rig(choice.rig, choice.dtype)
    sampling = Sampling(choice.temperature, choice.top_k, choice.top_p, choice.seed)
    ask = Ask(choice.prompt, choice.method, choice.budget, choice.max_tokens, sampling, choice.split,
              tuple(choice.heads))
    lines: list[Line] = []
    for line in LiveRig(rig).run(ask):
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
        "tokens_per_second": round(len(token_ids) / seconds, 1) if seconds else 0.0, "end": trace.end.reason,
        "note": trace.header.note}


def text_of(rig: Rig, token_ids: list[int]) -> str:
    """The text of tokens as they arrive; a character that spans tokens is shown when it is whole."""
    shown = pieces(rig.tokenizer, token_ids)
    return "".join(piece if isinstance(piece := shown[token], str) else "" for token in token_ids)


def main() -> int:
    """Exit 0 when the prompt was answered, 1 with one sentence when it could not be."""
    choice = parser().parse_args()
    try:
        result = generate(choice)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n\nτ {result['tau']} tokens per round (root included), {result['rounds']} rounds, "
          f"{result['tokens_per_second']} tokens/s; ended by {result['end']}.")
    if choice.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
