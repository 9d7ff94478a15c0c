"""`whatif`: τ of every method at every budget from one run, and the speed that this machine's costs predict."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.errors import RequestError
from engine.lab.forecast import Forecast, WhatIf
from engine.lab.whatif import BUDGETS
from engine.records import Ask, Sampling
from engine.runtime.live import LiveRig
from engine.runtime.rigs import DTYPES, Rig, open_rig
from engine.runtime.whatif import written
from engine.trace import Trace, gather, load

OWN_RUN = ("ddtree", 64)  # how a prompt without a trace is answered first: any method gives the same text


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    source = verb.add_mutually_exclusive_group(required=True)
    source.add_argument("--trace", type=Path, help="a recorded run")
    source.add_argument("--prompt", help="or a prompt, which is answered first")
    verb.add_argument("--rig", default="demo")
    verb.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS))
    verb.add_argument("--methods", nargs="+", default=(), help="all that can be replayed, if none is named")
    verb.add_argument("--temperature", type=float, default=0.0, help="of the run that answers --prompt")
    verb.add_argument("--seed", type=int, default=0)
    verb.add_argument("--max-tokens", type=int, default=256)
    verb.add_argument("--dtype", choices=list(DTYPES), help="the trace's own, else bfloat16")
    verb.add_argument("--without-cost", action="store_true", help="measure no cost curve and predict no speed")
    verb.add_argument("--json", action="store_true")


def run(choice: argparse.Namespace) -> dict[str, Any]:
    """Read or make the run, forecast, and return what --json prints."""
    trace = load(choice.trace) if choice.trace else None
    rig = open_rig(choice.rig, choice.dtype or (trace.header.dtype if trace else "bfloat16"))
    live = LiveRig(rig)
    text = written(trace or _answered(rig, live, choice))
    curve = None if choice.without_cost else live.curve(text.context, text.request.sampling)
    found = live.what_if(text, choice.budgets, choice.methods, curve)
    print(table(found))
    return encoded(found)


def _answered(rig: Rig, live: LiveRig, choice: argparse.Namespace) -> Trace:
    method, budget = OWN_RUN
    if 1 not in rig.defaults:
        raise RequestError(f"{rig.name} has no drafter, so there is nothing to replay.")
    sampling = Sampling(choice.temperature, seed=choice.seed)
    return gather(live.run(Ask(choice.prompt, method, budget, choice.max_tokens, sampling)))


def encoded(found: WhatIf) -> dict[str, Any]:
    """The record as plain values, with what it derives."""
    return {**asdict(found), "forecasts": [
        {**asdict(each), "tau": round(each.tau, 4), "tokens": each.tokens,
         "predicted_tokens_per_second": round(each.predicted_tokens_per_second, 1)} for each in found.forecasts]}


def table(found: WhatIf) -> str:
    """A row a method, a column a budget: τ, and below it the predicted tokens/s."""
    budgets = sorted({each.budget for each in found.forecasts if each.pace == "fixed"})
    lines = [f"{found.tokens} tokens of text; τ (root included), and predicted tokens/s below it",
             f"{'':16}" + "".join(f"{budget:>8}" for budget in budgets) + f"{'auto':>8}"]
    for method, split in dict.fromkeys((each.method, each.split) for each in found.forecasts):
        own = {(each.budget if each.pace == "fixed" else -1): each for each in found.of(method, split)}
        cells = [own.get(budget) for budget in [*budgets, -1]]
        name = f"{method} {split}" if split == "each" else method
        lines.append(f"{name:16}" + "".join(f"{_tau(each):>8}" for each in cells))
        if found.cost:
            lines.append(f"{'':16}" + "".join(f"{_speed(each):>8}" for each in cells))
    if found.best:
        lines.append(f"Fastest, predicted: {found.best.method} {found.best.split} at budget "
                     f"{'auto' if found.best.pace == 'auto' else found.best.budget}.")
    if found.departures:
        lines.append(f"The target would choose another token at {found.departures} places ({found.dtype} rounding).")
    return "\n".join([*lines, f"Took {found.seconds:.2f} s."])


def _tau(each: Forecast | None) -> str:
    return f"{each.tau:.2f}" if each else ""


def _speed(each: Forecast | None) -> str:
    return f"{each.predicted_tokens_per_second:.0f}" if each else ""


def summary(result: dict[str, Any]) -> str:
    """The table is printed already."""
    return ""
