"""How fast, and where a round's time goes: methods × budgets over a prompt file, interleaved, medians over repeats.

    python -m engine bench --methods autoregressive dflash ddtree plain --budgets 16 32 64 --prompts FILE.jsonl

``plain`` is DDTree as the paper's reference runs it (``engine/measure/plain.py``), in the same process. Times
are engine time without the prefill. ``forward`` is the part of ``verify`` spent inside the target's own forward pass;
``overhead`` is everything except the forward pass and the drafter. Prints a table, then one JSON line.

    python -m engine bench --concurrency 1 2 4 8 --prompts bench --hard reworded

measures requests that share their passes: the same budget for all, auto for each, auto shared, and no drafter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeVar, cast

import numpy as np
import torch

from engine.commands import flags, values
from engine.commands.flags import Result, Verb
from engine.decoding.budget_policy import AUTO, MOST_AUTO
from engine.decoding.methods import METHODS, Method
from engine.errors import RequestError
from engine.lab.planning import prompt_set
from engine.lab.settings import BASELINE, SweepPlan
from engine.measure.bench import MOST_BUSY, OFF, ON, OWN, PLAIN, SAME, SHARED, BenchPoint, Tally, measured
from engine.records import STAGES
from engine.requests.limits import TRIED_BUDGETS
from engine.requests.prompts import Prompt
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import mean_length

BUDGETS = TRIED_BUDGETS[3:7]  # 16 to 128 nodes
CONCURRENT_BUDGETS = TRIED_BUDGETS[1:6]  # 4 to 64 nodes for each request
USUAL, USUAL_CONCURRENT = ("autoregressive", "dflash", "ddtree", PLAIN), ("ddtree",)
PLAIN_TREE = "ddtree"  # the method that the plain loop runs
ROWS: Mapping[str, Method] = {**METHODS, PLAIN: METHODS[PLAIN_TREE]}
Named = TypeVar("Named")
Tallies = Mapping[BenchPoint, Sequence[Tally]]  # by repeat


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    flags.add_rig(verb)
    flags.add_dtype(verb)
    flags.add_methods(verb, USUAL, [PLAIN])
    flags.add_budgets_or_auto(verb, BUDGETS)
    flags.add_split(verb)
    flags.add_drafters(verb, "drafters by name, for the methods that take so many")
    flags.add_prompts(verb, "bench", 8)
    verb.add_argument("--domain", type=values.name, help="only the prompts of this domain")
    flags.add_max_tokens(verb, 128)
    flags.add_repeats(verb)
    verb.add_argument("--recording", nargs="+", type=values.one_of(OFF, ON), default=[OFF], metavar="OFF|ON",
                      help="whether every round is recorded, as the page does: off, on or both (default: off)")
    verb.add_argument("--beside", type=values.whole(0, MOST_BUSY), default=0, metavar="N",
                      help="measure everything beside so many busy processes too (default: 0)")
    flags.add_json(verb)
    verb.set_defaults(json=True)
    several = verb.add_argument_group("several requests at once")
    flags.add_concurrency(
        several, None,
        f"answer so many requests in shared passes; --budgets are then {CONCURRENT_BUDGETS} and --methods "
        f"{USUAL_CONCURRENT} where nothing else is said")
    several.add_argument("--hard", type=values.name, metavar="SET", help="every second prompt is one of this set")
    verb.set_defaults(methods=None, budgets=None)


def run(choice: argparse.Namespace) -> Result:
    """Measure, and return what --json prints."""
    must_fit(choice)
    plan = concurrent_plan(choice) if choice.concurrency else plan_of(choice)
    live = load_rig(choice.rig, choice.dtype)
    return {"hardware": live.hardware, "dtype": live.target.dtype, "torch": torch.__version__,
            "prompts": len(plan.prompts), "repeats": plan.repeats, **results(choice, plan, live)}


def results(choice: argparse.Namespace, plan: SweepPlan, live: Rig) -> Result:
    """The rows of the table, and what follows from them."""
    tallies: dict[BenchPoint, list[Tally]] = {
        cast(BenchPoint, point): [Tally() for _ in range(plan.repeats)] for point in plan.settings}
    for cell, tally in measured(live, plan):
        tallies[cast(BenchPoint, cell.setting)][cell.repeat].add(tally)
    if choice.concurrency:
        return {"concurrency": [concurrent_row(point, repeats) for point, repeats in tallies.items()],
                "verdicts": [verdict for count in once(choice.concurrency) for verdict in verdicts(count, tallies)]}
    return {"drafters": choice.drafters, "domain": choice.domain,
            "points": against_plain([row_of(point, repeats) for point, repeats in tallies.items()])}


def must_fit(choice: argparse.Namespace) -> None:
    """RequestError where given flags would have no effect."""
    if choice.hard and not choice.concurrency:
        raise RequestError("--hard mixes prompts for --concurrency; name how many requests are answered at once.")
    unused = [flag for flag, named in (
        ("--split", choice.split != "total"), ("--drafters", choice.drafters), ("--recording", ON in choice.recording),
        ("--beside", choice.beside)) if named]
    if choice.concurrency and unused:
        raise RequestError(f"With --concurrency, {' and '.join(unused)} would change nothing; leave that out.")


def plan_of(choice: argparse.Namespace) -> SweepPlan:
    """The plan that a command line asks for, whose settings are ``BenchPoint``s; the baseline has no budget."""
    prompts = of_domain(choice, choice.prompts)[:choice.limit]
    if not prompts:
        raise RequestError(f"{choice.prompts} has no prompt of the domain {choice.domain!r}.")
    points = []
    for method in choice.methods or USUAL:
        row = ROWS[method]
        drafters = tuple(choice.drafters) if len(choice.drafters) == row.drafter_count else ()
        for budget, pace in map(flags.nodes_and_pace, (choice.budgets or BUDGETS) if row.drafter_count else [0]):
            if method == PLAIN and pace == AUTO:
                raise RequestError(f"The published loop, {method}, has no budget {AUTO}; name numbers, or leave it out "
                                   "of --methods.")
            ways = [PLAIN] if method == PLAIN else choice.recording
            points += [BenchPoint(PLAIN_TREE if method == PLAIN else method, budget, choice.split, drafters, pace=pace,
                                  way=way, beside=beside) for way in ways for beside in (0, choice.beside)]
    return _plan(choice, prompts, points)


def concurrent_plan(choice: argparse.Namespace) -> SweepPlan:
    """The plan for several requests at once: without drafts, and every method at every budget and pace."""
    kinds = [of_domain(choice, name) for name in (choice.prompts, choice.hard) if name]
    prompts = [prompt for one_of_each in zip(*kinds, strict=False) for prompt in one_of_each][:choice.limit]
    most = max(choice.concurrency)
    if len(prompts) < most:
        domain = f" of the domain {choice.domain!r}" if choice.domain else ""
        raise RequestError(f"There are {len(prompts)} prompts{domain} for {most} requests at once; name a larger set, "
                           "or raise --limit.")
    if AUTO in (choice.budgets or ()):
        raise RequestError(f"With --concurrency, {AUTO} is measured in any case; leave it out of --budgets.")
    methods = once(choice.methods or USUAL_CONCURRENT)
    without = [method for method in methods if method not in METHODS or METHODS[method].drafter_count == 0]
    if without:
        raise RequestError(f"With --concurrency, {', '.join(without)} is no choice: plain decoding is always measured, "
                           "and all else has to be a method that drafts.")
    points = []
    for count in choice.concurrency:
        points.append(BenchPoint(BASELINE, 0, concurrency=count, way=SAME))
        for method in methods:
            points += [BenchPoint(method, budget, concurrency=count, way=SAME)
                       for budget in choice.budgets or CONCURRENT_BUDGETS]
            points += [BenchPoint(method, MOST_AUTO, pace=AUTO, concurrency=count, way=way) for way in (OWN, SHARED)]
    return _plan(choice, prompts, points)


def of_domain(choice: argparse.Namespace, name: str) -> list[Prompt]:
    """The prompts of a set that are of the wanted domain."""
    return [prompt for prompt in prompt_set(name) if choice.domain in (None, prompt.domain)]


def _plan(choice: argparse.Namespace, prompts: Sequence[Prompt], points: Iterable[BenchPoint]) -> SweepPlan:
    return SweepPlan(tuple(prompts), once(points), choice.repeats, choice.max_tokens, 0, choice.rig, choice.dtype,
                     choice.prompts)


def once(named: Iterable[Named]) -> tuple[Named, ...]:
    """The names without repeats, in the order of their first mention."""
    return tuple(dict.fromkeys(named))


def speeds(tallies: Sequence[Tally]) -> Result:
    """What every row says: medians over the repeats of a point."""
    rates = [tally.rate for tally in tallies]
    return {"tau": round(mean_length(tallies[0].tokens, tallies[0].trees), 3),
            "tokens_per_second": round(median(rates), 1), "spread": [round(min(rates), 1), round(max(rates), 1)],
            "ms": {stage: round(median(1e3 * tally.stages[stage] / tally.rounds for tally in tallies), 3)
                   for stage in STAGES}}


def row_of(point: BenchPoint, tallies: Sequence[Tally]) -> Result:
    """A row of the table of prompts that were answered one after the other."""
    row = speeds(tallies)
    inside = [tally.forward_seconds + tally.stages["draft"] for tally in tallies]
    known = sum(row["ms"].values()) > 0 and tallies[0].forward_seconds > 0  # the plain loop reports no stages
    plain = point.way == PLAIN
    return {
        "method": PLAIN if plain else point.method, "budget": point.budget if point.pace != AUTO else AUTO,
        "split": point.split, "recording": OFF if plain else point.way, "beside": point.beside, **row,
        "tokens": tallies[0].tokens,
        "ms_per_round": round(median(1e3 * tally.seconds / tally.rounds for tally in tallies), 3),
        "ms": row["ms"] if known else None,
        "forward_ms": round(median(1e3 * tally.forward_seconds / tally.rounds for tally in tallies), 3),
        "overhead_share": round(median(1 - part / tally.seconds for part, tally in zip(
            inside, tallies, strict=True)), 4) if known else None}


def against_plain(rows: Sequence[Result]) -> list[Result]:
    """The rows, each with its speed over that of plain decoding under the same conditions, where that was measured."""
    plain = {(row["recording"], row["beside"]): row["tokens_per_second"] for row in rows if row["method"] == BASELINE}
    return [{**row, "times_plain": round(row["tokens_per_second"] / rate, 3) if rate else None}
            for row in rows for rate in [plain.get((row["recording"], row["beside"]))]]


def concurrent_row(point: BenchPoint, tallies: Sequence[Tally]) -> Result:
    """A row of the table of several requests at once."""
    budget = str(point.budget) if point.way == SAME else point.way
    return {
        "concurrency": point.concurrency, "method": point.method, "budget": budget if point.budget else PLAIN,
        "label": f"{point.method} {budget}" if point.budget else point.method, **speeds(tallies),
        "per_request": round(median(median(tally.rates) for tally in tallies), 1),
        "slowest_request": round(median(min(tally.rates) for tally in tallies), 1),
        "nodes": round(median(tally.nodes / tally.trees for tally in tallies), 1)}


def verdicts(count: int, tallies: Tallies) -> list[Result]:
    """The shared budget compared, for so many requests at once, with the best budget that is the same for all requests,
    with each request's own pace, and with plain decoding: medians and quartiles of the ratios within a repeat."""
    points = [point for point in tallies if point.concurrency == count]
    judged = []
    for shared in (point for point in points if point.way == SHARED):
        same = [point for point in points if (point.method, point.way) == (shared.method, SAME)]
        best = max(same, key=lambda point: median(tally.rate for tally in tallies[point]))
        others = [best, *(point for point in points if (point.method, point.way) == (shared.method, OWN)),
                  *(point for point in points if point.method == BASELINE)]
        for other in others:
            ratios = [one.rate / tally.rate for one, tally in zip(tallies[shared], tallies[other], strict=True)]
            judged.append({"concurrency": count, "method": shared.method,
                           "against": concurrent_row(other, tallies[other])["label"], "ratio": round(median(ratios), 3),
                           "quartiles": [round(float(value), 3) for value in np.percentile(ratios, (25, 75))]})
    return judged


def summary(result: Result) -> str:
    """The table to read."""
    return concurrent_table(result) if "concurrency" in result else table(result["points"])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table to read."""
    lines = [f"{'method':15}{'budget':>7}{'rec':>5}{'beside':>8}{'tau':>7}{'tok/s':>9}{'x plain':>9}{'ms/round':>10}"
             f"{'forward':>9}{'overhead':>10}"]
    for row in rows:
        share = "" if row["overhead_share"] is None else f"{100 * float(str(row['overhead_share'])):.1f} %"
        lines.append(f"{row['method']:15}{row['budget']:>7}{row['recording']:>5}{row['beside']:>8}{row['tau']:>7}"
                     f"{row['tokens_per_second']:>9}{row['times_plain'] or '':>9}{row['ms_per_round']:>10}"
                     f"{row['forward_ms']:>9}{share:>10}")
    return "\n".join(lines)


def concurrent_table(result: Mapping[str, Any]) -> str:
    """The rows and verdicts of several requests at once; times in milliseconds per shared round."""
    lines = [f"{'at once':>7}  {'way':28}{'tok/s':>8}{'a request':>10}{'slowest':>9}{'tau':>7}{'nodes':>7}"
             + "".join(f"{stage:>8}" for stage in STAGES)]
    lines += [f"{row['concurrency']:>7}  {row['label']:28}{row['tokens_per_second']:>8}{row['per_request']:>10}"
              f"{row['slowest_request']:>9}{row['tau']:>7}{row['nodes']:>7}"
              + "".join(f"{row['ms'][stage]:>8.2f}" for stage in STAGES) for row in result["concurrency"]]
    lines += [f"{verdict['concurrency']} at once, {verdict['method']} {SHARED}: {verdict['ratio']:.3f} times "
              f"{verdict['against']} (quartiles {verdict['quartiles'][0]:.3f} to {verdict['quartiles'][1]:.3f})"
              for verdict in result["verdicts"]]
    return "\n".join(lines)


VERB = Verb(__doc__, add, run, summary)
