"""τ of every method at every budget from one run, and the speed that this machine's costs predict.

    python -m engine whatif --trace run.jsonl.gz
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.commands import flags, values
from engine.commands.flags import Result, Verb, nothing_more
from engine.errors import RequestError
from engine.lab.whatif import Forecast, WhatIf
from engine.measure.whatif import Alternatives, live_what_if, written
from engine.records import PromptRequest, Sampling
from engine.requests.limits import TRIED_BUDGETS
from engine.requests.rig_names import AUTO_DTYPE
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import Trace, gather, load

OWN_RUN = ("ddtree", 64)  # the method and budget that answer a prompt first; any method gives the same text


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    source = verb.add_mutually_exclusive_group(required=True)
    source.add_argument("--trace", type=values.readable_file, metavar="FILE", help="a recorded run")
    source.add_argument("--prompt", type=values.text, metavar="TEXT", help="or a prompt, which is answered first")
    flags.add_rig(verb)
    flags.add_dtype(verb, None, "the trace's own, else auto")
    flags.add_budgets(verb, TRIED_BUDGETS)
    flags.add_methods(verb, ())
    flags.add_temperature(verb)
    flags.add_seed(verb)
    flags.add_max_tokens(verb, 256)
    verb.add_argument("--without-cost", action="store_true", help="measure no cost curve and predict no speed")
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Read or make the run, forecast, and return what --json prints."""
    trace = load(choice.trace) if choice.trace else None
    rig = load_rig(choice.rig, choice.dtype or (trace.header.dtype if trace else AUTO_DTYPE))
    text = written(trace or _answered(rig, choice))
    curve = None if choice.without_cost else rig.curve(text.context, text.request.sampling)
    forecasts = live_what_if(rig, text, Alternatives(choice.budgets, choice.methods, curve))
    print(table(forecasts))
    return encoded(forecasts)


def _answered(rig: Rig, choice: argparse.Namespace) -> Trace:
    method, budget = OWN_RUN
    if 1 not in rig.defaults:
        raise RequestError(f"{rig.name} has no drafter, so there is nothing to replay.")
    sampling = Sampling(choice.temperature, seed=choice.seed)
    return gather(rig.run(PromptRequest(choice.prompt, method=method, budget=budget, max_tokens=choice.max_tokens,
                               sampling=sampling)))


def encoded(forecasts: WhatIf) -> Result:
    """The record as plain values, with its derived figures."""
    return {**asdict(forecasts), "withheld": forecasts.withheld, "forecasts": [
        {**asdict(forecast), "tau": round(forecast.tau, 4), "tokens": forecast.tokens,
         "predicted_tokens_per_second": round(forecast.predicted_tokens_per_second, 1)}
        for forecast in forecasts.forecasts]}


def table(forecasts: WhatIf) -> str:
    """A table to read: a row per method, a column per budget, with τ and below it the predicted tokens/s."""
    budgets = sorted({forecast.budget for forecast in forecasts.forecasts if forecast.pace == "fixed"})
    lines = [f"{forecasts.tokens} tokens of text; τ (root included), and predicted tokens/s below it",
             f"{'':16}" + "".join(f"{budget:>8}" for budget in budgets) + f"{'auto':>8}"]
    for method, split in dict.fromkeys((forecast.method, forecast.split) for forecast in forecasts.forecasts):
        by_budget = {(row.budget if row.pace == "fixed" else -1): row for row in forecasts.of(method, split)}
        cells = [by_budget.get(budget) for budget in [*budgets, -1]]
        name = f"{method} {split}" if split == "each" else method
        lines.append(f"{name:16}" + "".join(f"{_tau(cell):>8}" for cell in cells))
        if forecasts.cost and not forecasts.withheld:
            lines.append(f"{'':16}" + "".join(f"{_speed(cell):>8}" for cell in cells))
    if forecasts.best:
        lines.append(f"Fastest, predicted: {forecasts.best.method} {forecasts.best.split} at budget "
                     f"{'auto' if forecasts.best.pace == 'auto' else forecasts.best.budget}.")
    if forecasts.withheld:
        lines.append(forecasts.withheld)
    if forecasts.departures:
        lines.append(f"The target would choose another token at {forecasts.departures} places "
                     f"({forecasts.dtype} rounding).")
    return "\n".join([*lines, f"Took {forecasts.seconds:.2f} s."])


def _tau(forecast: Forecast | None) -> str:
    return f"{forecast.tau:.2f}" if forecast else ""


def _speed(forecast: Forecast | None) -> str:
    return f"{forecast.predicted_tokens_per_second:.0f}" if forecast else ""


VERB = Verb(__doc__, add, run, nothing_more)
