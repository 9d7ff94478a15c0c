"""Answer one prompt and stream the text.

    python -m engine generate --method ddtree --budget 16 --prompt "What is a draft tree?"
    python -m engine generate --prompt - < question.txt
"""

import argparse
import os
import sys

from engine import open_rig
from engine.commands import Outcome, flags
from engine.commands.flags import FLAGS, SAMPLING, add_flags
from engine.decoding.options import OPTIONS
from engine.requests.prompts import ROLES
from engine.serving.rig import Answer, Rig
from engine.trace import dump, tau

PARTIAL = "\ufffd"  # a character whose tokens have not all arrived


def add(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, "--rig", "--dtype")
    add_flags(parser, "--method", default=None, help=f"{FLAGS['--method']['help']} (default: the rig's own)")
    add_flags(parser, "--budget", "--split", "--drafters", *SAMPLING, "--max-tokens")
    parser.add_argument("--prompt", type=prompt, required=True, metavar="TEXT", help="- reads it from standard input")
    parser.add_argument("--turn", type=flags.parse_turn, action="append", dest="turns", metavar="ROLE:TEXT",
                        help=f"an earlier turn of the conversation ({', '.join(ROLES)}); as often as there were")
    parser.add_argument("--trace", type=flags.writable_file, metavar="FILE",
                        help="write the run to this file (.jsonl or .jsonl.gz)")


def prompt(word: str) -> str:
    """Return the prompt, from standard input if the word is a dash."""
    return flags.parse_text(os.fsdecode(sys.stdin.buffer.read()) if word == "-" else word)


def answer_of(rig: Rig, args: argparse.Namespace) -> Answer:
    options = {name: value for name, value in vars(args).items() if name in OPTIONS and value is not None}
    return rig.generate(**options)


def run(args: argparse.Namespace) -> Outcome:
    answer = answer_of(open_rig(args.rig, args.dtype), args)
    rounds, printed = [], ""
    for round_ in answer:
        rounds.append(round_)
        text = answer.text.rstrip(PARTIAL)
        print(text[len(printed):], end="", flush=True)
        printed = text
    if args.trace:
        dump(answer.trace, args.trace)
    seconds = sum(sum(round_.seconds.values()) for round_ in rounds)
    result = {
        "text": answer.text, "token_ids": answer.token_ids, "tau": round(tau(rounds), 4),
        "rounds": len(rounds), "acceptance_lengths": [len(round_.acceptance.keep) for round_ in rounds],
        "rows": [len(round_.tree) for round_ in rounds],
        "tokens_per_second": round(len(answer.token_ids) / seconds, 1) if seconds else 0.0,
        "end": answer.trace.end.reason, "note": answer.trace.header.note}
    return Outcome(result, f"\n\nτ {result['tau']} tokens per round (root included), {len(rounds)} rounds, "
                   f"{result['tokens_per_second']} tokens/s; ended by {result['end']}.")
