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

from engine import open_rig
from engine.commands import Outcome, aligned
from engine.commands.flags import add_flags
from engine.decoding.budget_policy import AUTO, FIXED, MAX_AUTO_NODES
from engine.lab.settings import Cell, prompt_set
from engine.measure.bench import BenchPlan, BenchPoint, measure_cells
from engine.measure.whatif import text_of_run, what_if
from engine.requests.limits import TRIED_BUDGETS
from engine.serving.rig import Rig
from engine.trace import gather

ALL = "all"
ByCell = dict[tuple[int, str], float]  # by prompt, and budget or auto


def add(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, "--rig", "--dtype", "--method")
    add_flags(parser, "--budgets", default=list(TRIED_BUDGETS[1:6]))
    add_flags(parser, "--prompts", nargs="+", default=["math", "code", "mixed"],
              help="shipped sets by name, or files of JSON lines")
    add_flags(parser, "--limit", default=4)
    add_flags(parser, "--repeats")
    add_flags(parser, "--max-tokens", default=128)


def run(choice: argparse.Namespace) -> Outcome:
    prompts = tuple(replace(prompt, category=Path(name).stem) for name in choice.prompts
                    for prompt in prompt_set(name, choice.limit))
    points = [*(BenchPoint(choice.method, budget) for budget in choice.budgets),
              BenchPoint(choice.method, MAX_AUTO_NODES, pace=AUTO)]
    plan = BenchPlan(prompts, tuple(points), choice.repeats, choice.max_tokens)
    rig = open_rig(choice.rig, choice.dtype)
    tokens, predicted = forecast(rig, plan, choice)
    repeats = defaultdict(list)
    for point, cell, tally in measure_cells(rig, plan):
        repeats[cell.prompt, point.nodes].append(tally.seconds)
    seconds = {key: median(times) for key, times in repeats.items()}
    domains = {}
    for domain in (*dict.fromkeys(prompt.category for prompt in prompts), ALL):
        numbers = [number for number, prompt in enumerate(prompts) if domain in (prompt.category, ALL)]
        domains[domain] = row_of({point.nodes: sum(tokens[number] for number in numbers) / sum(
            seconds[number, point.nodes] for number in numbers) for point in points})
    errors: dict[str, list[float]] = defaultdict(list)
    for (number, budget), rate in predicted.items():
        errors[budget].append(abs(rate / (tokens[number] / seconds[number, budget]) - 1))
    off = median(error for of_budget in errors.values() for error in of_budget)
    result = {"method": choice.method, "dtype": rig.target.dtype, "prompts": len(prompts), "repeats": choice.repeats,
              "domains": domains, "prediction_error": {"median": round(off, 4), "by_budget": {
                  budget: round(median(of_budget), 4) for budget, of_budget in errors.items()}}}
    return Outcome(result, f"{choice.method}, tokens/s by budget\n{table(domains)}\nPredicted tokens/s are {off:.1%} "
                   "off the measured ones (median).")


def forecast(rig: Rig, plan: BenchPlan, choice: argparse.Namespace) -> tuple[list[int], ByCell]:
    """The number of tokens of each prompt's text, and the predicted tokens/s of each setting, from a run with the first
    budget."""
    tokens, predicted = [], {}
    for number in range(len(plan.prompts)):
        text = text_of_run(gather(rig.run(plan.ask(Cell(number, plan.settings[0])))))
        curve = rig.curve(text.context, text.request.sampling)
        tokens.append(len(text.token_ids))
        for alternative in what_if(rig, text, choice.budgets, [choice.method], curve).forecasts:
            if alternative.pace == FIXED:
                predicted[number, str(alternative.budget)] = alternative.predicted_tokens_per_second
    return tokens, predicted


def row_of(rates: Mapping[str, float]) -> dict[str, Any]:
    """Tokens/s by budget and for auto, and what auto reaches of the best budget."""
    fixed = {budget: rate for budget, rate in rates.items() if budget != AUTO}
    best = max(fixed, key=lambda budget: fixed[budget])
    return {"fixed": {budget: round(rate, 1) for budget, rate in fixed.items()}, "auto": round(rates[AUTO], 1),
            "best_budget": int(best), "share_of_best": round(rates[AUTO] / fixed[best], 4)}


def table(domains: Mapping[str, Mapping[str, Any]]) -> str:
    return aligned([["", *domains[ALL]["fixed"], AUTO, "of best"], *(
        [domain, *row["fixed"].values(), row["auto"], f"{row['share_of_best']:.1%}"]
        for domain, row in domains.items())])
