"""How fast, and where a round's time goes: methods × budgets over a prompt file, interleaved, medians over repeats.

    python -m engine bench --methods autoregressive dflash ddtree plain --budgets 16 32 64 --prompts FILE.jsonl

``plain`` is DDTree as the paper's reference runs it (``engine/measure/plain.py``), in the same process. Times
are engine time without the prefill. ``forward`` is the part of ``verify`` spent inside the target's own forward pass;
``overhead`` is everything except the forward pass and the drafter. Prints a table, then one JSON line.

    python -m engine bench --together 1 2 4 8 --prompts bench --hard reworded

measures requests that share their passes: the same budget for all, auto for each, auto shared, and no drafter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, TypeVar, cast

import torch
from tqdm import tqdm

from engine.commands import flags, values
from engine.commands.verb import Result, Verb
from engine.decoding.acceptance_length import mean_length
from engine.decoding.budget_policy import AUTO
from engine.decoding.methods import METHODS, Method
from engine.errors import RequestError
from engine.lab import order
from engine.lab.control import Control
from engine.lab.prompt_sets import prompt_set
from engine.lab.settings import BASELINE, Setting, SweepPlan
from engine.lab.sweeping import Task, measure, warm
from engine.measure.bench import PLAIN, PLAIN_TREE, PlainLaboratory, RecordingLaboratory, Tally
from engine.measure.busy import MOST, busy_processes
from engine.measure.instruments import LiveLaboratory
from engine.measure.timing import ForwardClock
from engine.measure.together_bench import TogetherBench, together_results, together_table
from engine.records import STAGES, Ask
from engine.requests.limits import MOST_TOGETHER, TRIED_BUDGETS
from engine.serving.live import LiveRig, open_rig

BUDGETS = TRIED_BUDGETS[3:7]  # 16 to 128 nodes
TOGETHER_BUDGETS = TRIED_BUDGETS[1:6]  # 4 to 64 nodes for each request
USUAL, USUAL_TOGETHER = ("autoregressive", "dflash", "ddtree", PLAIN), ("ddtree",)
OFF, ON = "off", "on"
ROWS: Mapping[str, Method] = {**METHODS, PLAIN: METHODS[PLAIN_TREE]}
Named = TypeVar("Named")
OWN_WAYS = {PLAIN: PLAIN}  # methods that the rig's own loop does not run


@dataclass(frozen=True)
class BenchPoint(Setting):
    """A setting to measure; with ``recording`` on, runs carry text pieces and keep every round, as the page does.
    It is measured ``beside`` so many busy processes; ``way`` names what measures it."""

    recording: str = OFF
    beside: int = 0
    way: str = OFF


Tallies = Mapping[BenchPoint, Sequence[Tally]]


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
    verb.add_argument("--beside", type=values.whole(0, MOST), default=0, metavar="N",
                      help="measure everything beside so many busy processes too (default: 0)")
    flags.add_json(verb)
    verb.set_defaults(json=True)
    together = verb.add_argument_group("several requests at once")
    together.add_argument("--together", type=values.whole(1, MOST_TOGETHER), nargs="+", metavar="N",
                          help=f"answer so many requests in shared passes; --budgets are then {TOGETHER_BUDGETS} and "
                          f"--methods {USUAL_TOGETHER} where nothing else is said")
    together.add_argument("--hard", type=values.name, metavar="SET", help="every second prompt is one of this set")
    verb.set_defaults(methods=None, budgets=None)


def run(choice: argparse.Namespace) -> Result:
    """Measure, and return what --json prints."""
    must_fit(choice)
    if choice.together:
        asked = together_of(choice)
        return together_results(open_rig(choice.rig, choice.dtype), asked)
    plan = plan_of(choice)
    live = open_rig(choice.rig, choice.dtype)
    tallies = interleaved(live, plan)
    return {
        "hardware": live.hardware, "dtype": live.loaded.dtype, "torch": torch.__version__,
        "prompts": len(plan.prompts),
        "heads": choice.drafters, "domain": choice.domain, "repeats": plan.repeats,
        "points": against_plain([row_of(point, found) for point, found in tallies.items()])}


def must_fit(choice: argparse.Namespace) -> None:
    """RequestError where given flags would have no effect."""
    if choice.hard and not choice.together:
        raise RequestError("--hard mixes prompts for --together; name how many requests are answered at once.")
    unused = [flag for flag, named in (
        ("--split", choice.split != "total"), ("--drafters", choice.drafters), ("--recording", ON in choice.recording),
        ("--beside", choice.beside)) if named]
    if choice.together and unused:
        raise RequestError(f"With --together, {' and '.join(unused)} would change nothing; leave that out.")


def plan_of(choice: argparse.Namespace) -> SweepPlan:
    """The plan that a command line asks for, whose settings are ``BenchPoint``s; the baseline has no budget."""
    prompts = prompt_set(choice.prompts)
    prompts = tuple(each for each in prompts if choice.domain in (None, each.domain))[:choice.limit]
    if not prompts:
        raise RequestError(f"{choice.prompts} has no prompt of the domain {choice.domain!r}.")
    points = []
    for method in choice.methods or USUAL:
        row = ROWS[method]
        drafters = tuple(choice.drafters) if len(choice.drafters) == row.drafter_count else ()
        for budget, pace in map(flags.nodes_and_pace, (choice.budgets or BUDGETS) if row.drafter_count else [0]):
            if pace == AUTO and method in OWN_WAYS:
                raise RequestError(f"The published loop, {method}, has no budget {AUTO}; name numbers, or leave it out "
                                   "of --methods.")
            points += [BenchPoint(method, budget, choice.split, drafters, pace=pace, recording=each, beside=beside,
                                  way=OWN_WAYS.get(method, each))
                       for each in choice.recording for beside in dict.fromkeys((0, choice.beside))]
    return SweepPlan(prompts, tuple(dict.fromkeys(points)), choice.repeats, choice.max_tokens, 0, choice.rig,
                     choice.dtype, choice.prompts)


def together_of(choice: argparse.Namespace) -> TogetherBench:
    """The measurement of several requests at once that a command line asks for."""
    sets = [prompt_set(name) for name in (choice.prompts, choice.hard) if name]
    kinds = [[each for each in prompts if choice.domain in (None, each.domain)] for prompts in sets]
    prompts = [each for one_of_each in zip(*kinds, strict=False) for each in one_of_each][:choice.limit]
    most = max(choice.together)
    if len(prompts) < most:
        domain = f" of the domain {choice.domain!r}" if choice.domain else ""
        raise RequestError(f"There are {len(prompts)} prompts{domain} for {most} requests at once; name a larger set, "
                           "or raise --limit.")
    if AUTO in (choice.budgets or ()):
        raise RequestError(f"With --together, {AUTO} is measured in any case; leave it out of --budgets.")
    methods = once(choice.methods or USUAL_TOGETHER)
    without = [method for method in methods if method not in METHODS or METHODS[method].drafter_count == 0]
    if without:
        raise RequestError(f"With --together, {', '.join(without)} is no choice: plain decoding is always measured, "
                           "and all else has to be a method that drafts.")
    return TogetherBench(tuple(Ask(each.text, max_tokens=choice.max_tokens) for each in prompts), methods,
                         once(choice.budgets or TOGETHER_BUDGETS), once(choice.together), choice.repeats)


def once(named: Iterable[Named]) -> tuple[Named, ...]:
    """The names without repeats, in the order of their first mention."""
    return tuple(dict.fromkeys(named))


def interleaved(live: LiveRig, plan: SweepPlan) -> Tallies:
    """A tally for each repeat of every point, with the cells in a sweep's order, after each point has run once to warm
    up. RequestError where one cannot be run, before anything is measured."""
    ways = {OFF: LiveLaboratory(live), ON: RecordingLaboratory(live), PLAIN: PlainLaboratory(live)}
    clock = ForwardClock(live.loaded.target.fastest)
    tasks = [Task(cell, plan.ask(replace(cell, repeat=0))) for cell in order.cells(plan)]
    for task in tasks[:len(plan.settings)]:
        ways[_way(task)].check(task.ask)
    for name, laboratory in ways.items():
        warm(laboratory, [task for task in tasks if _way(task) == name], Control())
    tallies = {point: [Tally() for _ in range(plan.repeats)]
               for point in plan.settings if isinstance(point, BenchPoint)}
    for task in tqdm(tasks, unit="run"):
        point = cast(BenchPoint, task.cell.setting)
        with busy_processes(point.beside):
            clock.seconds = 0.0
            found = measure(ways[point.way], task)
        if found.reading is None:
            raise RequestError(found.failure)
        tallies[point][task.cell.repeat].add(found.reading, clock.seconds)
    return tallies


def _way(task: Task) -> str:
    """The name of the laboratory that measures a task."""
    return cast(BenchPoint, task.cell.setting).way


def row_of(point: BenchPoint, tallies: Sequence[Tally]) -> Result:
    """A row of the table: medians over the repeats of a point."""
    rates = [tally.tokens / tally.seconds for tally in tallies]
    first = tallies[0]
    per_round = {stage: median(1e3 * tally.stages[stage] / tally.rounds for tally in tallies) for stage in STAGES}
    inside = [tally.forward_seconds + tally.stages["draft"] for tally in tallies]
    known = sum(per_round.values()) > 0 and first.forward_seconds > 0  # the plain loop reports no stages
    return {
        "method": point.method, "budget": point.budget if point.pace != AUTO else AUTO,
        "split": point.split, "recording": point.recording,
        "beside": point.beside,
        "tau": round(mean_length(first.tokens, first.rounds), 3), "tokens": first.tokens,
        "tokens_per_second": round(median(rates), 1), "spread": [round(min(rates), 1), round(max(rates), 1)],
        "ms_per_round": round(median(1e3 * tally.seconds / tally.rounds for tally in tallies), 3),
        "ms": {stage: round(value, 3) for stage, value in per_round.items()} if known else None,
        "forward_ms": round(median(1e3 * tally.forward_seconds / tally.rounds for tally in tallies), 3),
        "overhead_share": round(median(1 - part / tally.seconds for part, tally in zip(
            inside, tallies, strict=True)), 4) if known else None}


def against_plain(rows: Sequence[Result]) -> list[Result]:
    """The rows, each with its speed over that of plain decoding under the same conditions, where that was measured."""
    plain = {(row["recording"], row["beside"]): row["tokens_per_second"] for row in rows if row["method"] == BASELINE}
    return [{**row, "times_plain": round(row["tokens_per_second"] / rate, 3) if rate else None}
            for row in rows for rate in [plain.get((row["recording"], row["beside"]))]]


def summary(result: Result) -> str:
    """The table to read."""
    return together_table(result) if "together" in result else table(result["points"])


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


VERB = Verb(__doc__, add, run, summary)
