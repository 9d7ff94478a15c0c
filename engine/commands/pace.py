"""Is budget=auto as fast as the best fixed budget, and are the what-if's predicted speeds right?

Runs every prompt, method, budget and repeat once, in shuffled order; a prompt's seconds are the median of its repeats.
Auto does not know the domain; the best fixed budget is chosen for each domain after the fact.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from engine.commands import flags
from engine.commands.verb import Result, Verb
from engine.decoding.budget_policy import AUTO, FIXED, MOST_AUTO
from engine.decoding.outcome import outcome
from engine.lab.prompt_sets import prompt_set
from engine.measure.whatif import Alternatives, live_what_if, written
from engine.records import Ask
from engine.requests.limits import TRIED_BUDGETS
from engine.serving.live import LiveRig, open_rig
from engine.trace import gather

ALL = "all"
Key = tuple[str, str, int]  # domain, prompt, budget; AUTO_KEY stands for auto
AUTO_KEY = -1


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
    prompts = [(Path(name).stem, prompt.text) for name in choice.prompts for prompt in prompt_set(name, choice.limit)]
    live = open_rig(choice.rig, choice.dtype)
    tokens, predicted = _forecast(live, prompts, choice)
    seconds = _measured(live, prompts, choice)
    rates = {domain: _rates(domain, tokens, seconds, choice) for domain in (
        *dict.fromkeys(domain for domain, _ in prompts), ALL)}
    errors = [abs(predicted[key] / (tokens[key[:2]] / seconds[key]) - 1) for key in predicted]
    result = {"method": choice.method, "dtype": live.loaded.dtype, "prompts": len(prompts),
              "repeats": choice.repeats, "domains": rates, "prediction_error": {
                  "median": round(median(errors), 4), "by_budget": _by_budget(predicted, tokens, seconds)}}
    print(table(result))
    return result


def _ask(prompt: str, budget: int, choice: argparse.Namespace) -> Ask:
    if budget == AUTO_KEY:
        return Ask(prompt, method=choice.method, budget=MOST_AUTO, max_tokens=choice.max_tokens, pace=AUTO)
    return Ask(prompt, method=choice.method, budget=budget, max_tokens=choice.max_tokens, pace=FIXED)


def _forecast(live: LiveRig, prompts: Sequence[tuple[str, str]], choice: argparse.Namespace) -> tuple[
        dict[tuple[str, str], int], dict[Key, float]]:
    """The number of tokens of each prompt's text, and the predicted tokens/s of each setting, from a run with the first
    budget."""
    tokens, predicted = {}, {}
    for domain, prompt in prompts:
        text = written(gather(live.run(_ask(prompt, choice.budgets[0], choice))))
        curve = live.curve(text.context, text.request.sampling)
        tokens[domain, prompt] = len(text.token_ids)
        for each in live_what_if(live, text, Alternatives(choice.budgets, [choice.method], curve)).forecasts:
            if each.pace == FIXED:
                predicted[domain, prompt, each.budget] = each.predicted_tokens_per_second
    return tokens, predicted


def _measured(live: LiveRig, prompts: Sequence[tuple[str, str]], choice: argparse.Namespace) -> dict[Key, float]:
    """The median seconds of each setting; the first run of auto, which measures the costs, does not count."""
    cells = [(domain, prompt, budget) for domain, prompt in prompts for budget in (*choice.budgets, AUTO_KEY)]
    order, times = random.Random(0), defaultdict(list)
    for key in cells[:len(choice.budgets) + 1] + [
            cell for _ in range(choice.repeats) for cell in tqdm(order.sample(cells, len(cells)))]:
        with live.rounds(_ask(key[1], key[2], choice)) as rounds:
            times[key].append(outcome(rounds).seconds)
    return {key: median(found[-choice.repeats:]) for key, found in times.items()}


def _rates(domain: str, tokens: Mapping[tuple[str, str], int], seconds: Mapping[Key, float],
           choice: argparse.Namespace) -> dict[str, Any]:
    """The tokens/s over a domain's prompts, by budget and for auto."""
    own = [key for key in tokens if domain in (key[0], ALL)]
    rate = {budget: sum(tokens[key] for key in own) / sum(seconds[*key, budget] for key in own)
            for budget in (*choice.budgets, AUTO_KEY)}
    best = max(choice.budgets, key=lambda budget: rate[budget])
    return {"fixed": {str(budget): round(rate[budget], 1) for budget in choice.budgets},
            "auto": round(rate[AUTO_KEY], 1), "best_budget": best,
            "share_of_best": round(rate[AUTO_KEY] / rate[best], 4)}


def _by_budget(predicted: Mapping[Key, float], tokens: Mapping[tuple[str, str], int],
               seconds: Mapping[Key, float]) -> dict[str, float]:
    """The median over prompts of |predicted / measured − 1|, by budget."""
    errors = defaultdict(list)
    for key, rate in predicted.items():
        errors[str(key[2])].append(abs(rate / (tokens[key[:2]] / seconds[key]) - 1))
    return {budget: round(median(found), 4) for budget, found in errors.items()}


def table(result: Mapping[str, Any]) -> str:
    """A table to read: a row per domain, a column per budget."""
    budgets = list(next(iter(result["domains"].values()))["fixed"])
    lines = [f"{result['method']}, tokens/s by budget", f"{'':10}" + "".join(f"{budget:>8}" for budget in budgets) +
             f"{'auto':>8}{'of best':>9}"]
    for domain, found in result["domains"].items():
        lines.append(f"{domain:10}" + "".join(f"{found['fixed'][budget]:>8}" for budget in budgets) +
                     f"{found['auto']:>8}{found['share_of_best']:>9.1%}")
    return "\n".join(lines)


def summary(result: Result) -> str:
    """The sentence on how far the what-if's predictions are off."""
    return f"Predicted tokens/s are {result['prediction_error']['median']:.1%} off the measured ones (median)."


VERB = Verb(__doc__, add, run, summary)
