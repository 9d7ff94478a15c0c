"""How fast, and where a round's time goes: methods × budgets over a prompt file, interleaved, medians over repeats.

    python -m engine bench --methods autoregressive dflash ddtree published --budgets 16 32 64 --prompts FILE.jsonl

``published`` is DDTree as the paper's reference runs it (``engine/measure/published_loop.py``), in the same process.
Times are engine time without the prefill. ``forward`` is the part of ``verify`` spent inside the target's own forward
pass; ``overhead`` is everything except the forward pass and the drafter. Prints a table, then one JSON line.
`python -m engine sweep --concurrency` measures several requests at once.

    python -m engine bench --counts --methods ddtree expand published --budgets 16

counts what a round asks of a GPU, on a pretended one (``engine/measure/pretended_gpu.py``): the same on every machine.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from engine import open_rig
from engine.commands import Outcome, aligned, flags
from engine.commands.flags import add_flags
from engine.decoding.budget_policy import AUTO
from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.settings import BASELINE, Cell, prompt_set
from engine.measure.bench import BenchPlan, BenchSetting, Tally, can_run, measure_cells, published_rounds
from engine.measure.pretended_gpu import KERNEL, KINDS, calls_per_round, pretended_gpu
from engine.records import STAGES
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import mean_length

OFF, ON = "off", "on"
PUBLISHED_LOOP, LEGACY_NAME = "published", "plain"  # in --methods; "plain" suggested plain decoding
PUBLISHED_METHOD = "ddtree"  # the method that the published loop runs
DEFAULT_METHODS = ("autoregressive", "dflash", "ddtree", PUBLISHED_LOOP)
DEFAULT_BUDGETS = (16, 32, 64, 128)
COLUMNS = {"method": "method", "budget": "budget", "rec": "recording", "tau": "tau", "tok/s": "tokens_per_second",
           "x plain": "times_plain", "ms/round": "ms_per_round", "forward": "forward_ms"}
Row = dict[str, Any]


def add(parser: argparse.ArgumentParser) -> None:
    names = (*METHODS, PUBLISHED_LOOP)
    add_flags(parser, "--rig", "--dtype")
    add_flags(parser, "--methods", type=flags.one_of(*names, LEGACY_NAME), help=f"of {', '.join(names)} (default: "
              f"those of {' '.join(DEFAULT_METHODS)} that the rig runs)")
    add_flags(parser, "--budgets", type=flags.budget_or_auto, default=list(DEFAULT_BUDGETS),
              help=f"drafted nodes per round, or {AUTO}")
    add_flags(parser, "--split", "--drafters")
    add_flags(parser, "--prompts", default="bench")
    add_flags(parser, "--limit", default=8)
    add_flags(parser, "--max-tokens", default=128)
    add_flags(parser, "--repeats")
    parser.add_argument("--recording", nargs="+", type=flags.one_of(OFF, ON), default=[OFF], metavar="OFF|ON",
                        help="whether every round is recorded, as the page does: off, on or both")
    parser.add_argument("--counts", action="store_true", help="count what a round asks of a GPU: kernels, copies to it "
                        "and from it, other synchronisations; on a pretended one, for the first prompt")
    parser.set_defaults(json=True)


def run(args: argparse.Namespace) -> Outcome:
    plan = plan_of(args)
    if args.counts:
        return count_calls(plan, args)
    rig = open_rig(args.rig, args.dtype)
    plan = _runnable(plan, rig, args)
    tallies = {setting: [Tally() for _ in range(plan.repeats)] for setting in plan.settings}
    for setting, cell, tally in measure_cells(rig, plan):
        tallies[setting][cell.repeat].add(tally)
    rows = [row_of(setting, repeats) for setting, repeats in tallies.items()]
    plain = {row["recording"]: row["tokens_per_second"] for row in rows if row["method"] == BASELINE}
    points = [{**row, "times_plain": round(row["tokens_per_second"] / plain[row["recording"]], 3)
               if row["recording"] in plain else None} for row in rows]
    return Outcome({"hardware": rig.hardware, "dtype": rig.target.dtype, "torch": torch.__version__,
                    "prompts": len(plan.prompts), "repeats": plan.repeats, "drafters": args.drafters,
                    "points": points}, table(points))


def plan_of(args: argparse.Namespace) -> BenchPlan:
    """Plan every method at every budget; the baseline has no budget. A setting that is named twice is measured once."""
    settings = []
    for name in args.methods or DEFAULT_METHODS:
        published = name in (PUBLISHED_LOOP, LEGACY_NAME)
        method = PUBLISHED_METHOD if published else name
        drafter_count = METHODS[method].drafter_count
        drafters = tuple(args.drafters) if len(args.drafters) == drafter_count else ()
        budgets = args.budgets if drafter_count else [0]
        if published:
            budgets = [budget for budget in budgets if budget != AUTO]
            if args.methods and not budgets:
                raise RequestError(f"The published loop has no budget {AUTO}; name a number, too.")
        for budget, pace in map(flags.nodes_and_pace, budgets):
            settings += [BenchSetting(method, budget, args.split, drafters, pace=pace, recorded=recording == ON,
                                      published_loop=published)
                         for recording in ([OFF] if published else args.recording)]
    prompts = prompt_set(args.prompts, args.limit)
    return BenchPlan(prompts, tuple(dict.fromkeys(settings)), args.repeats, args.max_tokens)


def _runnable(plan: BenchPlan, rig: Rig, args: argparse.Namespace) -> BenchPlan:
    """Return the plan; if no method is named, only settings that the rig can run."""
    return replace(plan, settings=tuple(one for one in plan.settings if args.methods or can_run(rig, one)))


def row_of(setting: BenchSetting, tallies: Sequence[Tally]) -> Row:
    """Return a row of the table: medians over the repeats of a setting. The published loop reports no stages."""
    speeds = [tally.tokens_per_second for tally in tallies]
    row = {**name_of(setting), "split": setting.split,
           "tau": round(mean_length(tallies[0].tokens, tallies[0].rounds), 3), "tokens": tallies[0].tokens,
           "tokens_per_second": round(median(speeds), 1), "spread": [round(min(speeds), 1), round(max(speeds), 1)],
           "ms_per_round": round(median(1e3 * tally.seconds / tally.rounds for tally in tallies), 3),
           "forward_ms": round(median(1e3 * tally.forward_seconds / tally.rounds for tally in tallies), 3)}
    if setting.published_loop:
        return {**row, "ms": None, "overhead_share": None}
    overhead = median(1 - (tally.forward_seconds + tally.stages["draft"]) / tally.seconds for tally in tallies)
    milliseconds = {stage: median(1e3 * tally.stages[stage] / tally.rounds for tally in tallies) for stage in STAGES}
    return {**row, "ms": {stage: round(value, 3) for stage, value in milliseconds.items()},
            "overhead_share": round(overhead, 4)}


def name_of(setting: BenchSetting) -> Row:
    return {"method": PUBLISHED_LOOP if setting.published_loop else setting.method,
            "budget": setting.budget_label if setting.pace == AUTO else setting.budget,
            "recording": ON if setting.recorded else OFF}


def table(rows: Sequence[Row]) -> str:
    """Format the rows; times in milliseconds per round."""
    overheads = (row["overhead_share"] for row in rows)
    return aligned([[*COLUMNS, "overhead"], *(
        [*(row[name] for name in COLUMNS.values()), None if overhead is None else f"{overhead:.1%}"]
        for row, overhead in zip(rows, overheads, strict=True))])


def count_calls(plan: BenchPlan, args: argparse.Namespace) -> Outcome:
    if any(setting.pace == AUTO for setting in plan.settings):
        raise RequestError(f"--counts needs fixed budgets: {AUTO} depends on measured times.")
    rows: list[Row] = []
    with pretended_gpu() as counts:
        rig = load_rig(args.rig, args.dtype, "cuda")
        for setting in _runnable(plan, rig, args).settings:
            request = plan.request(Cell(0, setting))
            if setting.published_loop:
                calls = calls_per_round(counts, published_rounds(rig, request))
            else:
                with rig.interleaved([request]) as (rounds,):
                    calls = calls_per_round(counts, rounds, recorded=setting.recorded)
            stages = [] if setting.published_loop else dict.fromkeys(stage for stage, _ in calls)
            rows += [{**name_of(setting), "stage": stage,
                      **{kind: round(calls.get((stage, kind), 0), 2) for kind in KINDS}} for stage in stages]
            totals = {kind: sum(count for (_, other), count in calls.items() if other == kind) for kind in KINDS}
            rows.append({**name_of(setting), "stage": "round",
                         **{kind: round(total, 2) for kind, total in totals.items()}})
    columns = {"method": "method", "budget": "budget", "rec": "recording", "stage": "stage", "kernels": KERNEL,
               **{kind.replace("_", " "): kind for kind in KINDS[1:]}}
    return Outcome({"rig": rig.name, "dtype": rig.target.dtype, "drafters": args.drafters, "counts": rows},
                   aligned([[*columns], *([row[name] for name in columns.values()] for row in rows)]))
