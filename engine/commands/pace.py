"""Is budget=auto as fast as the best fixed budget, and are the what-if's predicted speeds right?

Measures every prompt, budget and repeat as `bench` does; a prompt's seconds are the median of its repeats. Auto does
not know the domain; the best fixed budget is chosen for each domain after the fact.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from engine.commands import flags
from engine.commands.flags import Result, Verb
from engine.decoding.budget_policy import AUTO, FIXED, MOST_AUTO
from engine.lab.planning import prompt_set
from engine.lab.settings import Cell, SweepPlan
from engine.measure.bench import BenchPoint, measured
from engine.measure.whatif import Alternatives, live_what_if, written
from engine.requests.limits import TRIED_BUDGETS
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import gather

ALL = "all"
Rates = Mapping[tuple[int, str], float]  # tokens/s by prompt and budget, or auto


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    flags.add_rig(verb)
    flags.add_dtype(verb)
    flags.add_method(verb)
    flags.add_budgets(verb, TRIED_BUDGETS[1:6])
    flags.add_prompts(verb, ["math", "code", "mixed"], 4, "+")
    flags.add_repeats(verb)
    flags.add_max_tokens(verb, 128)
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Measure, print a table, and return what --json prints."""
    prompts = tuple(replace(prompt, domain=Path(name).stem) for name in choice.prompts
                    for prompt in prompt_set(name, choice.limit))
    points = [*(BenchPoint(choice.method, budget) for budget in choice.budgets),
              BenchPoint(choice.method, MOST_AUTO, pace=AUTO)]
    plan = SweepPlan(prompts, tuple(points), choice.repeats, choice.max_tokens)
    live = load_rig(choice.rig, choice.dtype)
    tokens, predicted = forecast(live, plan, choice)
    seconds = defaultdict(list)
    for cell, tally in measured(live, plan):
        seconds[cell.prompt, cell.setting.nodes].append(tally.seconds)
    times = {key: median(repeats) for key, repeats in seconds.items()}
    errors = {key: abs(rate / (tokens[key[0]] / times[key]) - 1) for key, rate in predicted.items()}
    domains = {ALL: range(len(prompts)), **{prompt.domain: [
        place for place, other in enumerate(prompts) if other.domain == prompt.domain] for prompt in prompts}}
    rates = {domain: {point.nodes: sum(tokens[place] for place in places) / sum(
        times[place, point.nodes] for place in places) for point in points} for domain, places in domains.items()}
    result = {"method": choice.method, "dtype": live.target.dtype, "prompts": len(prompts), "repeats": choice.repeats,
              "domains": {domain: row_of(rates[domain]) for domain in (*list(domains)[1:], ALL)}, "prediction_error": {
                  "median": round(median(errors.values()), 4), "by_budget": {str(budget): round(median(
                      error for (_, nodes), error in errors.items() if nodes == str(budget)), 4)
                      for budget in choice.budgets}}}
    print(table(result))
    return result


def forecast(live: Rig, plan: SweepPlan, choice: argparse.Namespace) -> tuple[list[int], Rates]:
    """The number of tokens of each prompt's text, and the predicted tokens/s of each setting, from a run with the first
    budget."""
    tokens, predicted = [], {}
    for place in range(len(plan.prompts)):
        text = written(gather(live.run(plan.ask(Cell(place, plan.settings[0])))))
        curve = live.curve(text.context, text.request.sampling)
        tokens.append(len(text.token_ids))
        for alternative in live_what_if(live, text, Alternatives(choice.budgets, [choice.method], curve)).forecasts:
            if alternative.pace == FIXED:
                predicted[place, str(alternative.budget)] = alternative.predicted_tokens_per_second
    return tokens, predicted


def row_of(rates: Mapping[str, float]) -> dict[str, Any]:
    """A domain's tokens/s by budget and for auto, and what auto reaches of the best budget."""
    fixed = {budget: rate for budget, rate in rates.items() if budget != AUTO}
    best = max(fixed, key=lambda budget: fixed[budget])
    return {"fixed": {budget: round(rate, 1) for budget, rate in fixed.items()}, "auto": round(rates[AUTO], 1),
            "best_budget": int(best), "share_of_best": round(rates[AUTO] / fixed[best], 4)}


def table(result: Mapping[str, Any]) -> str:
    """A table to read: a row per domain, a column per budget."""
    budgets = list(result["domains"][ALL]["fixed"])
    lines = [f"{result['method']}, tokens/s by budget", f"{'':10}" + "".join(f"{budget:>8}" for budget in budgets) +
             f"{'auto':>8}{'of best':>9}"]
    for domain, row in result["domains"].items():
        lines.append(f"{domain:10}" + "".join(f"{row['fixed'][budget]:>8}" for budget in budgets) +
                     f"{row['auto']:>8}{row['share_of_best']:>9.1%}")
    return "\n".join(lines)


def summary(result: Result) -> str:
    """The sentence on how far the what-if's predictions are off."""
    return f"Predicted tokens/s are {result['prediction_error']['median']:.1%} off the measured ones (median)."


VERB = Verb(__doc__, add, run, summary)
