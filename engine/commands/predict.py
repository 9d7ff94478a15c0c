"""What rounds would cost on another machine, predicted from published figures; with recorded runs, their best settings.

    python -m engine predict --model qwen3-8b --device H200 --trace run.jsonl.gz
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.commands import flags, values
from engine.commands.flags import Result, Verb
from engine.errors import RequestError
from engine.lab.anatomy import anatomy
from engine.lab.machines import LINES, against_budgets, against_table, caution, devices, machine_curve, misfit, models
from engine.lab.paste import flags_of_run
from engine.requests.limits import MOST_TOKENS
from engine.trace import load

SHOWN = (0, *(2**power for power in range(2, 11)))  # drafted nodes


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    verb.add_argument("--model", type=values.one_of(*models()), default="qwen3-8b", metavar="MODEL",
                      help=f"of {', '.join(models())} (default: qwen3-8b)")
    verb.add_argument("--device", type=values.one_of(*devices()), default="H200", metavar="DEVICE",
                      help=f"of {', '.join(devices())} (default: H200)")
    verb.add_argument("--context", type=values.whole(0, MOST_TOKENS), default=1024, metavar="N",
                      help="tokens before the round (default: 1024)")
    verb.add_argument("--trace", type=values.readable_file, nargs="+", default=[], metavar="FILE",
                      help="recorded runs: their drafts' best settings at these costs")
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Predict, and return what --json prints."""
    if reason := misfit(choice.model, choice.device):
        raise RequestError(f"{reason[:-1]}; choose a smaller model or a larger device.")
    curves = {line: machine_curve(choice.model, choice.device, line, choice.context) for line in LINES}
    found = anatomy([load(path) for path in choice.trace])
    return {"curves": {line: asdict(curve) for line, curve in curves.items()},
            "rounds_ms": {line: {nodes: curve.round_ms(nodes + 1, nodes, min(nodes, 1)) for nodes in SHOWN}
                          for line, curve in curves.items()},
            "flags": {line: [asdict(row) for row in flags_of_run(found, curve)] for line, curve in curves.items()},
            "table1": [asdict(row) for row in against_table()], "figure3": against_budgets(), "caution": caution()}


def summary(result: Result) -> str:
    """The predicted costs, the flags, and how good such predictions were."""
    lines = ["Predicted milliseconds of a round (0 nodes: plain decoding), in plain steps beside it",
             f"{'nodes':>16}" + "".join(f"{nodes:>8}" for nodes in SHOWN)]
    for line, rounds in result["rounds_ms"].items():
        lines += [f"{line:16}" + "".join(f"{spent:>8.2f}" for spent in rounds.values()),
                  f"{'':16}" + "".join(f"{spent / rounds[0]:>8.2f}" for spent in rounds.values())]
    for line, rows in result["flags"].items():
        lines += [f"\n{row['engine']} at the {line}: {row['flags']}\n    {row['expected']}" for row in rows]
    lines += ["", "Against Table 1 (τ over the predicted cost of a round; relative errors of the speed-up):"]
    lines += [f"  {row['method']:8}{row['model']:22}{'fitted' if row['fitted'] else 'not fitted':12}median "
              f"{row['median']:.1%}, worst {row['worst']:.0%} ({row['worst_at']})" for row in result["table1"]]
    lines += ["Against Figure 3 (published, predicted by node budget): " + ", ".join(
        f"{budget}: {there:.2f}, {here:.2f}" for budget, there, here in result["figure3"]) + "."]
    return "\n".join([*lines, result["caution"]])


VERB = Verb(__doc__, add, run, summary)
