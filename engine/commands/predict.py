"""What rounds would cost on another machine, predicted from published figures; with recorded runs, their best settings.

    python -m engine predict --model qwen3-8b --device H200 --trace run.jsonl.gz
"""

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engine.commands import Outcome, aligned, flags
from engine.errors import RequestError
from engine.lab import machines
from engine.lab.anatomy import anatomy
from engine.lab.flags import READ_IN, flags_of_run
from engine.records import MAX_TOKENS
from engine.trace import load

NODES = (0, *(2**power for power in range(2, 11)))  # drafted in a round


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=flags.one_of(*machines.models()), default=machines.PUBLISHED_MODEL,
                        metavar="MODEL", help=f"of {', '.join(machines.models())}")
    parser.add_argument("--device", type=flags.one_of(*machines.devices()), default=machines.PUBLISHED_DEVICE,
                        metavar="DEVICE", help=f"of {', '.join(machines.devices())}")
    parser.add_argument("--context", type=flags.int_between(0, MAX_TOKENS), default=1024, metavar="N",
                        help="tokens before the round")
    parser.add_argument("--trace", type=flags.readable_file, nargs="+", default=[], metavar="FILE",
                        help="recorded runs: their drafts' best settings at these costs")


def run(args: argparse.Namespace) -> Outcome:
    if reason := machines.too_large_reason(args.model, args.device):
        raise RequestError(f"{reason[:-1]}; choose a smaller model or a larger device.")
    curves = {line: machines.machine_curve(args.model, args.device, line, args.context)
              for line in machines.ESTIMATES}
    runs = anatomy([load(path) for path in args.trace])
    result = {
        "curves": {line: asdict(curve) for line, curve in curves.items()},
        "rounds_ms": {line: {nodes: curve.round_ms(nodes + 1, nodes, min(nodes, 1)) for nodes in NODES}
                      for line, curve in curves.items()},
        "flags": {line: [asdict(row) for row in flags_of_run(runs, curve)] for line, curve in curves.items()},
        "caution": machines.error_note()}
    return Outcome(result, summary(result))


def summary(result: Mapping[str, Any]) -> str:
    """Format the predicted costs, the flags, and the errors of earlier predictions."""
    rows: list[list[object]] = [["nodes", *NODES]]
    for line, rounds in result["rounds_ms"].items():
        rows += [[line, *(f"{spent:.2f}" for spent in rounds.values())],
                 ["", *(f"{spent / rounds[0]:.2f}" for spent in rounds.values())]]
    lines = ["Predicted milliseconds of a round (0 nodes: plain decoding), in plain steps below it", aligned(rows)]
    for line, proposals in result["flags"].items():
        lines += [f"\n{row['engine']} at the {line}: {row['flags']}\n    {row['expected']}" for row in proposals]
    lines += [f"\nFlags as in {READ_IN}."] if any(result["flags"].values()) else []
    return "\n".join([*lines, "", result["caution"]])
