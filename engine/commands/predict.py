"""What rounds would cost on another machine, predicted from published figures; with recorded runs, their best settings.

    python -m engine predict --model qwen3-8b --device H200 --trace run.jsonl.gz
    python -m engine predict --here --rig demo --dtype float32

``--here`` holds such a prediction to what is measured: passes of a rig, from what this processor takes for products,
attention and dispatches that are not the rig's.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.commands import flags, values
from engine.commands.flags import Result, Verb
from engine.errors import RequestError
from engine.lab.anatomy import anatomy
from engine.lab.machines import (
    LINES,
    PUBLISHED_DEVICE,
    PUBLISHED_MODEL,
    against_budgets,
    against_table,
    caution,
    devices,
    machine_curve,
    misfit,
    models,
)
from engine.lab.paste import flags_of_run
from engine.measure.processor import measured_beside, shape_of
from engine.requests.limits import MOST_TOKENS
from engine.serving.rigs import load_rig
from engine.trace import load

SHOWN = (0, *(2**power for power in range(2, 11)))  # drafted nodes
ROWS_HERE = (1, 2, 4, 8, 17, 33, 65)
SECONDS_HERE = 8.0


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    verb.add_argument("--model", type=values.one_of(*models()), default=PUBLISHED_MODEL, metavar="MODEL",
                      help=f"of {', '.join(models())} (default: {PUBLISHED_MODEL})")
    verb.add_argument("--device", type=values.one_of(*devices()), default=PUBLISHED_DEVICE, metavar="DEVICE",
                      help=f"of {', '.join(devices())} (default: {PUBLISHED_DEVICE})")
    verb.add_argument("--context", type=values.whole(0, MOST_TOKENS), default=1024, metavar="N",
                      help="tokens before the round (default: 1024)")
    verb.add_argument("--trace", type=values.readable_file, nargs="+", default=[], metavar="FILE",
                      help="recorded runs: their drafts' best settings at these costs")
    verb.add_argument("--here", action="store_true", help="instead: predict the passes of --rig in --dtype on this "
                      "processor, beside what they take")
    flags.add_rig(verb)
    flags.add_dtype(verb)
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Predict, and return what --json prints."""
    if choice.here:
        return predicted_here(choice)
    if reason := misfit(choice.model, choice.device):
        raise RequestError(f"{reason[:-1]}; choose a smaller model or a larger device.")
    curves = {line: machine_curve(choice.model, choice.device, line, choice.context) for line in LINES}
    anatomy_ = anatomy([load(path) for path in choice.trace])
    return {"curves": {line: asdict(curve) for line, curve in curves.items()},
            "rounds_ms": {line: {nodes: curve.round_ms(nodes + 1, nodes, min(nodes, 1)) for nodes in SHOWN}
                          for line, curve in curves.items()},
            "flags": {line: [asdict(row) for row in flags_of_run(anatomy_, curve)] for line, curve in curves.items()},
            "table1": [asdict(row) for row in against_table()], "figure3": against_budgets(), "caution": caution()}


def predicted_here(choice: argparse.Namespace) -> Result:
    """The passes of a rig, predicted and measured: milliseconds by rows."""
    target = load_rig(choice.rig, choice.dtype).target
    context = min(choice.context, target.context_limit - ROWS_HERE[-1])
    processor, measured = measured_beside(target, target.dtype, context, ROWS_HERE, SECONDS_HERE)
    predicted = shape_of(target.config).pass_here_ms(processor, context)
    return {"here": {"rig": choice.rig, "dtype": target.dtype, "hardware": target.hardware, "context": context,
                     "rows": ROWS_HERE, "measured_ms": measured, "predicted_ms": predicted,
                     "errors": [guess / there - 1 for guess, there in zip(predicted, measured, strict=True)],
                     "parts": asdict(processor), "gigabytes_a_second": processor.gigabytes_a_second,
                     "gigaflops": processor.gigaflops}}


def summary_here(here: Result) -> str:
    """A row of the table for each number of rows."""
    lines = [f"Passes of {here['rig']} in {here['dtype']} after {here['context']} tokens on {here['hardware']}: "
             f"{here['gigabytes_a_second']:.1f} GB/s of weights at one row, {here['gigaflops']:.0f} GFLOP/s at "
             f"{here['rows'][-1]}", f"{'rows':>6}{'measured':>12}{'predicted':>12}{'error':>8}"]
    lines += [f"{rows:>6}{there:>9.2f} ms{guess:>9.2f} ms{error:>+8.0%}" for rows, there, guess, error in zip(
        here["rows"], here["measured_ms"], here["predicted_ms"], here["errors"], strict=True)]
    return "\n".join(lines)


def summary(result: Result) -> str:
    """The predicted costs, the flags, and how good such predictions were."""
    if "here" in result:
        return summary_here(result["here"])
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
