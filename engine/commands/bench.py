"""How fast, and where a round's time goes: methods × budgets over a prompt file, interleaved, medians over repeats.

    python -m engine bench --methods autoregressive dflash ddtree plain --budgets 16 32 64 --prompts FILE.jsonl

``plain`` is DDTree as the paper's reference runs it (``engine/measure/published_loop.py``), in the same process. Times
are engine time without the prefill. ``forward`` is the part of ``verify`` spent inside the target's own forward pass;
``overhead`` is everything except the forward pass and the drafter. Prints a table, then one JSON line.

    python -m engine bench --concurrency 1 2 4 8 --prompts bench --hard reworded

measures requests that share their passes: the same budget for all, auto for each, auto shared, and no drafter.

    python -m engine bench --counts --methods ddtree expand plain --budgets 16

counts what a round asks of a GPU, on a pretended one (``engine/measure/pretended_gpu.py``): the same on every machine.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import torch

from engine import open_rig
from engine.commands import Outcome, aligned, flags
from engine.commands.flags import add_flags
from engine.decoding.budget_policy import AUTO, MAX_AUTO_NODES
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.settings import BASELINE, Cell, prompt_set
from engine.measure.bench import (
    CONCURRENT,
    LONE,
    OFF,
    ON,
    PUBLISHED_LOOP,
    PUBLISHED_METHOD,
    SAME,
    SHARED,
    BenchPlan,
    BenchPoint,
    Tally,
    can_run,
    measure_cells,
    published_rounds,
)
from engine.measure.pretended_gpu import KERNEL, KINDS, calls_per_round, pretended_gpu
from engine.records import STAGES
from engine.requests.limits import TRIED_BUDGETS
from engine.requests.prompts import Prompt
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import mean_length

BUDGETS = TRIED_BUDGETS[3:7]  # 16 to 128 nodes
CONCURRENT_BUDGETS = TRIED_BUDGETS[1:6]  # 4 to 64 nodes for each request
DEFAULT_METHODS, DEFAULT_CONCURRENT = ("autoregressive", "dflash", "ddtree", PUBLISHED_LOOP), ("ddtree",)
COLUMNS = {"method": "method", "budget": "budget", "rec": "recording", "tau": "tau", "tok/s": "tokens_per_second",
           "x plain": "times_plain", "ms/round": "ms_per_round", "forward": "forward_ms"}
CONCURRENT_COLUMNS = {"way": "label", "at once": "concurrency", "tok/s": "tokens_per_second",
                      "a request": "per_request", "slowest": "slowest_request", "tau": "tau", "nodes": "nodes"}
Row = dict[str, Any]


def add(parser: argparse.ArgumentParser) -> None:
    names = (*METHODS, PUBLISHED_LOOP)
    add_flags(parser, "--rig", "--dtype")
    add_flags(parser, "--methods", type=flags.one_of(*names), help=f"of {', '.join(names)} (default: those "
              f"of {' '.join(DEFAULT_METHODS)} that the rig runs; with --concurrency {' '.join(DEFAULT_CONCURRENT)})")
    add_flags(parser, "--budgets", type=flags.budget_or_auto, help=f"drafted nodes per round, or {AUTO} (default: "
              f"{' '.join(map(str, BUDGETS))}; with --concurrency {' '.join(map(str, CONCURRENT_BUDGETS))})")
    add_flags(parser, "--split", "--drafters")
    add_flags(parser, "--prompts", default="bench")
    add_flags(parser, "--limit", default=8)
    add_flags(parser, "--max-tokens", default=128)
    add_flags(parser, "--repeats")
    parser.add_argument("--recording", nargs="+", type=flags.one_of(OFF, ON), default=[OFF], metavar="OFF|ON",
                        help="whether every round is recorded, as the page does: off, on or both")
    parser.add_argument("--counts", action="store_true", help="count what a round asks of a GPU: kernels, copies to it "
                        "and from it, other synchronisations; on a pretended one, for the first prompt")
    concurrent = parser.add_argument_group("several requests at once")
    add_flags(concurrent, "--concurrency")
    concurrent.add_argument("--hard", type=flags.name, metavar="SET", help="every second prompt is one of this set")
    parser.set_defaults(json=True)


def run(args: argparse.Namespace) -> Outcome:
    if args.counts:
        return count_calls(args)
    plan = concurrent_plan(args) if args.concurrency else plan_of(args)
    rig = open_rig(args.rig, args.dtype)
    plan = _served(plan, rig, args)
    tallies = {point: [Tally() for _ in range(plan.repeats)] for point in plan.settings}
    for point, cell, tally in measure_cells(rig, plan):
        tallies[point][cell.repeat].add(tally)
    result = {"hardware": rig.hardware, "dtype": rig.target.dtype, "torch": torch.__version__,
              "prompts": len(plan.prompts), "repeats": plan.repeats}
    rows = [row_of(point, repeats) for point, repeats in tallies.items()]
    if args.concurrency:
        judged = [verdict for count in dict.fromkeys(args.concurrency) for verdict in verdicts(count, tallies)]
        return Outcome({**result, "concurrency": rows, "verdicts": judged}, table(rows, judged))
    points = against_plain(rows)
    return Outcome({**result, "drafters": args.drafters, "points": points}, table(points))


def count_calls(args: argparse.Namespace) -> Outcome:
    if args.concurrency:
        raise RequestError("With --counts, --concurrency would change nothing; leave it out.")
    plan = plan_of(args)
    if any(point.pace == AUTO for point in plan.settings):
        raise RequestError(f"With --counts, a budget {AUTO} has no times to go by; name numbers of nodes.")
    rows = []
    with pretended_gpu() as counts:
        rig = load_rig(args.rig, args.dtype, "cuda")
        for point in _served(plan, rig, args).settings:
            request = plan.request(Cell(0, point))
            if point.way == PUBLISHED_LOOP:
                calls = calls_per_round(counts, published_rounds(rig, request))
            else:
                with rig.interleaved([request]) as (rounds,):
                    calls = calls_per_round(counts, rounds, recorded=point.way == ON)
            named = {"method": PUBLISHED_LOOP if point.way == PUBLISHED_LOOP else point.method, "budget": point.budget,
                     "recording": OFF if point.way == PUBLISHED_LOOP else point.way}
            stages = {} if point.way == PUBLISHED_LOOP else dict.fromkeys(stage for stage, _ in calls)
            rows += [{**named, "stage": stage, **{kind: round(calls.get((stage, kind), 0), 2) for kind in KINDS}}
                     for stage in stages]
            rows.append({**named, "stage": "round", **{
                kind: round(sum(count for (_, one), count in calls.items() if one == kind), 2) for kind in KINDS}})
    columns = {"method": "method", "budget": "budget", "rec": "recording", "stage": "stage", "kernels": KERNEL,
               **{kind.replace("_", " "): kind for kind in KINDS[1:]}}
    return Outcome({"rig": rig.name, "dtype": rig.target.dtype, "drafters": args.drafters, "counts": rows},
                   aligned([[*columns], *([row[name] for name in columns.values()] for row in rows)]))


def plan_of(args: argparse.Namespace) -> BenchPlan:
    """Plan one request after the other; the baseline has no budget."""
    if args.hard:
        raise RequestError("--hard mixes prompts for --concurrency; name how many requests are answered at once.")
    points = []
    for name in args.methods or DEFAULT_METHODS:
        method, ways = (PUBLISHED_METHOD, [PUBLISHED_LOOP]) if name == PUBLISHED_LOOP else (name, args.recording)
        row = METHODS[method]
        drafters = tuple(args.drafters) if len(args.drafters) == row.drafter_count else ()
        budgets = (args.budgets or BUDGETS) if row.drafter_count else [0]
        if name == PUBLISHED_LOOP:
            budgets = [budget for budget in budgets if budget != AUTO]
            if args.methods and not budgets:
                raise RequestError(f"The published loop, {PUBLISHED_LOOP}, has no budget {AUTO}; name a number beside "
                                   "it.")
        for budget, pace in map(flags.nodes_and_pace, budgets):
            points += [BenchPoint(method, budget, args.split, drafters, pace=pace, way=way) for way in ways]
    return _plan(args, prompt_set(args.prompts, args.limit), points)


def concurrent_plan(args: argparse.Namespace) -> BenchPlan:
    """Plan several requests at once: without drafts, and every method at every budget and pace."""
    unused = [flag for flag, named in (
        ("--split", args.split != "total"), ("--drafters", args.drafters), ("--recording", ON in args.recording))
        if named]
    if unused:
        raise RequestError(f"With --concurrency, {' and '.join(unused)} would change nothing; leave that out.")
    sets = [prompt_set(name) for name in (args.prompts, args.hard) if name]
    prompts = [prompt for pair in zip(*sets, strict=False) for prompt in pair][:args.limit]
    max_concurrency = max(args.concurrency)
    if len(prompts) < max_concurrency:
        raise RequestError(f"There are {len(prompts)} prompts for {max_concurrency} requests at once; name a larger "
                           "set, or raise --limit.")
    methods = args.methods or DEFAULT_CONCURRENT
    without = [name for name in methods if name == PUBLISHED_LOOP or METHODS[name].drafter_count == 0]
    if without:
        raise RequestError(f"With --concurrency, {', '.join(without)} is no choice: plain decoding is always measured, "
                           "and all else has to be a method that drafts.")
    points = []
    # auto is always measured
    budgets = [budget for budget in args.budgets or () if budget != AUTO] or CONCURRENT_BUDGETS
    for count in args.concurrency:
        points.append(BenchPoint(BASELINE, 0, concurrency=count, way=SAME))
        for method in methods:
            points += [BenchPoint(method, budget, concurrency=count, way=SAME)
                       for budget in budgets]
            points += [BenchPoint(method, MAX_AUTO_NODES, pace=AUTO, concurrency=count, way=way)
                       for way in (LONE, SHARED)]
    return _plan(args, prompts, points)


def _plan(args: argparse.Namespace, prompts: Sequence[Prompt], points: Sequence[BenchPoint]) -> BenchPlan:
    """Return the plan; a setting that is named twice is measured once."""
    return BenchPlan(tuple(prompts), tuple(dict.fromkeys(points)), args.repeats, args.max_tokens)


def _served(plan: BenchPlan, rig: Rig, args: argparse.Namespace) -> BenchPlan:
    """Return the plan; if no method is named, only settings that the rig can run."""
    return replace(plan, settings=tuple(point for point in plan.settings if args.methods or can_run(rig, point)))


def row_of(point: BenchPoint, tallies: Sequence[Tally]) -> Row:
    """Return a row of the table: medians over the repeats of a point. The published loop reports no stages."""
    published, first = point.way == PUBLISHED_LOOP, tallies[0]
    rates = [tally.rate for tally in tallies]
    row: Row = {
        "method": PUBLISHED_LOOP if published else point.method, "budget": AUTO if point.pace == AUTO else point.budget,
        "split": point.split, "tau": round(mean_length(first.tokens, first.trees), 3), "tokens": first.tokens,
        "tokens_per_second": round(median(rates), 1), "spread": [round(min(rates), 1), round(max(rates), 1)],
        "ms_per_round": round(median(1e3 * tally.seconds / tally.rounds for tally in tallies), 3),
        "ms": None if published else {
            stage: round(median(1e3 * tally.stages[stage] / tally.rounds for tally in tallies), 3) for stage in STAGES}}
    if point.way in CONCURRENT:
        budget = str(point.budget) if point.way == SAME else point.way
        return {**row, "concurrency": point.concurrency, "budget": budget if point.budget else "plain",
                "label": f"{point.method} {budget}" if point.budget else point.method,
                "per_request": round(median(median(tally.rates) for tally in tallies), 1),
                "slowest_request": round(median(min(tally.rates) for tally in tallies), 1),
                "nodes": round(median(tally.nodes / tally.trees for tally in tallies), 1)}
    overhead = median(1 - (tally.forward_seconds + tally.stages["draft"]) / tally.seconds for tally in tallies)
    return {**row, "recording": OFF if published else point.way,
            "forward_ms": round(median(1e3 * tally.forward_seconds / tally.rounds for tally in tallies), 3),
            "overhead_share": None if published else round(overhead, 4)}


def against_plain(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, each with its speed over plain decoding's that was recorded likewise, if measured."""
    plain = {row["recording"]: row["tokens_per_second"] for row in rows if row["method"] == BASELINE}
    return [{**row, "times_plain": round(row["tokens_per_second"] / plain[row["recording"]], 3)
             if row["recording"] in plain else None} for row in rows]


def verdicts(count: int, tallies: Mapping[BenchPoint, Sequence[Tally]]) -> list[Row]:
    """Compare the shared budget of ``count`` requests with the best equal budget, each request's own pace, and plain
    decoding: medians and quartiles of the ratios within a repeat."""
    points = [point for point in tallies if point.concurrency == count]
    judged = []
    for shared in (point for point in points if point.way == SHARED):
        same = [point for point in points if (point.method, point.way) == (shared.method, SAME)]
        best = max(same, key=lambda point: median(tally.rate for tally in tallies[point]))
        others = [best, *(point for point in points if (point.method, point.way) == (shared.method, LONE)),
                  *(point for point in points if point.method == BASELINE)]
        for other in others:
            ratios = [one.rate / tally.rate for one, tally in zip(tallies[shared], tallies[other], strict=True)]
            judged.append({"concurrency": count, "method": shared.method,
                           "against": row_of(other, tallies[other])["label"], "ratio": round(median(ratios), 3),
                           "quartiles": [round(float(value), 3) for value in np.percentile(ratios, (25, 75))]})
    return judged


def table(rows: Sequence[Row], judged: Sequence[Row] = ()) -> str:
    """Format the rows, and the verdicts on concurrent requests; times in milliseconds per round."""
    columns = CONCURRENT_COLUMNS if judged else COLUMNS
    lines = [aligned([[*columns, *(STAGES if judged else ["overhead"])], *(
        [*(row[name] for name in columns.values()),
         *([f"{row['ms'][stage]:.2f}" for stage in STAGES] if judged else
           [None if row["overhead_share"] is None else f"{row['overhead_share']:.1%}"])] for row in rows)])]
    lines += [f"{verdict['concurrency']} at once, {verdict['method']} {SHARED}: {verdict['ratio']:.3f} times "
              f"{verdict['against']} (quartiles {verdict['quartiles'][0]:.3f} to {verdict['quartiles'][1]:.3f})"
              for verdict in judged]
    return "\n".join(lines)
