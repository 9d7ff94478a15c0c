"""τ of every method at every budget from one run, and the speed that this machine's costs predict.

    python -m engine whatif --trace run.jsonl.gz
"""

import argparse
from dataclasses import asdict
from typing import Any

from engine import open_rig
from engine.commands import Outcome, aligned, flags
from engine.commands.flags import FLAGS, SAMPLING, add_flags
from engine.decoding.budget_policy import AUTO, FIXED
from engine.errors import RequestError
from engine.lab.replay import Forecast, Gain, WhatIf
from engine.measure.whatif import text_of_run, what_if
from engine.records import PromptRequest
from engine.requests.limits import TRIED_BUDGETS
from engine.requests.rig_names import AUTO_DTYPE
from engine.serving.rig import Rig
from engine.trace import Trace, load, trace_from_lines

FIRST_RUN = ("ddtree", 64)  # the method and budget that answer a prompt first; any method gives the same text


def add(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--trace", type=flags.readable_file, metavar="FILE", help="a recorded run")
    source.add_argument("--prompt", type=flags.parse_text, metavar="TEXT", help="or a prompt, which is answered first")
    add_flags(parser, "--rig")
    add_flags(parser, "--dtype", default=None,
              help=f"{FLAGS['--dtype']['help']} (default: the trace's own, else {AUTO_DTYPE})")
    add_flags(parser, "--budgets", default=list(TRIED_BUDGETS))
    add_flags(parser, "--methods", default=[], help=f"{FLAGS['--methods']['help']} (default: all)")
    add_flags(parser, *SAMPLING, "--max-tokens")
    parser.add_argument("--without-cost", action="store_true", help="measure no cost curve and predict no speed")


def run(args: argparse.Namespace) -> Outcome:
    trace = load(args.trace) if args.trace else None
    rig = open_rig(args.rig, args.dtype or (trace.header.dtype if trace else AUTO_DTYPE))
    text = text_of_run(trace or _answered(rig, args))
    curve = None if args.without_cost else rig.curve(text.context, text.request.sampling)
    forecasts = what_if(rig, text, args.budgets, args.methods, curve)
    return Outcome(encoded(forecasts), table(forecasts))


def _answered(rig: Rig, args: argparse.Namespace) -> Trace:
    method, budget = FIRST_RUN
    if 1 not in rig.card.defaults:
        raise RequestError(f"{rig.name} has no drafter, so there is nothing to replay.")
    return trace_from_lines(rig.run(PromptRequest(args.prompt, method=method, budget=budget, max_tokens=args.max_tokens,
                                         sampling=flags.sampling_of(args))))


def encoded(forecasts: WhatIf) -> dict[str, Any]:
    """Return the record as plain values, with its derived figures."""
    return {**asdict(forecasts), "withheld": forecasts.withheld, "forecasts": [
        {**_named(forecast, "method", "split", "budget", "pace"), "tau": round(forecast.tau, 4),
         "tokens": forecast.tokens, "predicted_tokens_per_second": round(forecast.predicted_tokens_per_second, 1)}
        for forecast in forecasts.forecasts], "gains": [_named(gain, "method", "split") for gain in forecasts.gains]}


def _named(record: Forecast | Gain, *names: str) -> dict[str, Any]:
    """Return a record's fields, with these of its setting in place of the setting."""
    values = asdict(record)
    setting = values.pop("setting")
    return {**{name: setting[name] for name in names}, **values}


def table(forecasts: WhatIf) -> str:
    """Format a row per method and a column per budget, with τ and below it the predicted tokens/s."""
    fixed = {forecast.setting.budget for forecast in forecasts.forecasts if forecast.setting.pace == FIXED}
    columns = [*map(str, sorted(fixed)), AUTO]
    rows: list[list[object]] = [["", *columns]]
    for curve in dict.fromkeys(forecast.setting.curve for forecast in forecasts.forecasts):
        by_column = {forecast.setting.budget_label: forecast for forecast in forecasts.forecasts_for(curve)}
        cells = [by_column.get(column) for column in columns]
        rows.append([f"{curve.method} {curve.split}" if curve.split == "each" else curve.method,
                     *(f"{cell.tau:.2f}" if cell else None for cell in cells)])
        if forecasts.cost and not forecasts.withheld:
            rows.append(["", *(f"{cell.predicted_tokens_per_second:.0f}" if cell else None for cell in cells)])
    lines = [f"{forecasts.tokens} tokens of text; τ (root included), and predicted tokens/s below it", aligned(rows)]
    if best := forecasts.best:
        lines.append(f"Fastest, predicted: {best.setting.method} {best.setting.split} at budget "
                     f"{best.setting.budget_label}.")
    if forecasts.withheld:
        lines.append(forecasts.withheld)
    if forecasts.departures:
        lines.append(f"The target would choose another token at {forecasts.departures} places "
                     f"({forecasts.dtype} rounding).")
    return "\n".join([*lines, f"Took {forecasts.seconds:.2f} s."])
