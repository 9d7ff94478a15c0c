"""Which method and budget are fastest here: methods × budgets over a prompt set, interleaved, kept in one file.

    python -m engine.sweep --methods dflash ddtree joint --budgets 16 32 64 --prompts bench --out results.sqlite

Stop it whenever you like; ``--resume`` goes on with the file's latest sweep, and takes its settings from there. A
table for people, then one JSON line for machines.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from tqdm import tqdm

from engine.errors import CanopyError, RequestError
from engine.lab.control import Control
from engine.lab.planning import BUDGETS, Choice, check, choose_budgets, settings
from engine.lab.prompt_sets import prompt_set, shipped_sets
from engine.lab.report import Record, report, runs_csv, table_csv
from engine.lab.settings import BASELINE, SweepPlan
from engine.lab.store import Results, Store
from engine.lab.sweeping import Alone, Crew, Progress, run_sweep
from engine.methods import METHODS
from engine.records import Sampling
from engine.runtime.measure import laboratory
from engine.runtime.ray_workers import ray_crew
from engine.runtime.rigs import DTYPES

DETAILS = ("domains", "histograms", "acceptance", "calibration")  # too long for a line; --report writes them


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m engine.sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = top.add_argument_group("what is measured")
    what.add_argument("--rig", default="demo")
    what.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")
    what.add_argument("--methods", nargs="+", default=["dflash", "ddtree", "joint"], help=f"of {', '.join(METHODS)}; "
                      f"{BASELINE} is always measured too")
    what.add_argument("--budgets", nargs="+", default=[str(budget) for budget in BUDGETS],
                      help="drafted nodes per round; auto for as many as pay in each")
    what.add_argument("--split", default="total", help="what the budget means for merged: total or each")
    what.add_argument("--heads", nargs="*", default=(), help="drafters by name, for the methods that take so many")
    what.add_argument("--temperature", type=float, default=0.0)
    what.add_argument("--top-k", type=int, default=0)
    what.add_argument("--top-p", type=float, default=1.0)
    what.add_argument("--prompts", default="bench", help=f"a set ({', '.join(shipped_sets())}) or a JSONL file")
    what.add_argument("--limit", type=int, help="use the first so many prompts")
    what.add_argument("--repeats", type=int, default=3)
    what.add_argument("--max-tokens", type=int, default=128)
    what.add_argument("--seed", type=int, default=0)
    how = top.add_argument_group("how and where to")
    how.add_argument("--out", type=Path, default=Path("results.sqlite"), help="the results file")
    how.add_argument("--resume", action="store_true", help="go on with the latest sweep of the file")
    how.add_argument("--ray", metavar="ADDRESS", help="measure on a Ray cluster; 'local' starts one here")
    how.add_argument("--workers", type=int, help="how many Ray workers (default: one a GPU, else one a host)")
    how.add_argument("--csv", type=Path, help="write the table to this file")
    how.add_argument("--runs-csv", type=Path, help="write every run to this file")
    how.add_argument("--report", type=Path, help="write everything that the page draws to this file, as JSON")
    return top


def plan_of(choice: argparse.Namespace) -> SweepPlan:
    """The sweep that a command line asks for."""
    sampling = Sampling(choice.temperature, choice.top_k, choice.top_p, choice.seed)
    budgets, auto_budget = choose_budgets(" ".join(choice.budgets))
    wanted = Choice(tuple(choice.methods), budgets, choice.split, tuple(choice.heads), sampling, auto_budget)
    return SweepPlan(prompt_set(choice.prompts, choice.limit), settings(wanted), choice.repeats, choice.max_tokens,
                     choice.seed, choice.rig, choice.dtype, choice.prompts)


def latest(path: Path) -> tuple[int, SweepPlan]:
    """The number and the plan of the file's latest sweep."""
    with Results(path) as results:
        sweeps = results.sweeps()
    if not sweeps:
        raise RequestError(f"There is no sweep in {path.name} to resume; begin one without --resume.")
    return sweeps[-1].number, sweeps[-1].plan


def crew_of(choice: argparse.Namespace, plan: SweepPlan) -> Crew:
    """Who measures: this process, or Ray's workers."""
    opened = partial(laboratory, plan.rig, plan.dtype)
    if choice.ray is None:
        return Alone(opened())
    return ray_crew(opened, choice.ray, choice.workers)


def sweep(choice: argparse.Namespace) -> Record:
    """Measure, and return the report."""
    number, plan = latest(choice.out) if choice.resume else (0, plan_of(choice))
    crew = crew_of(choice, plan)
    check(plan, crew.methods)
    with Store(choice.out) as store:
        number = number or store.begin(plan, crew.conditions)
        stored = store.sweep(number)
        show(run_sweep(store, number, crew, Control()), stored.done, len(plan))
        made = report(store.sweep(number), measured := store.measured(number))
    write(choice.csv, table_csv(made))
    write(choice.runs_csv, runs_csv(plan, measured))
    write(choice.report, json.dumps(made, ensure_ascii=False, indent=1))
    return made


def show(steps: Iterable[Progress], done: int, total: int) -> None:
    """A bar of the cells that are done."""
    with tqdm(total=total, initial=done, unit="run") as bar:
        for step in steps:
            bar.set_postfix_str("" if step.seconds_left is None else f"{step.seconds_left:.0f} s left")
            bar.update(step.done - bar.n)


def write(path: Path | None, text: str) -> None:
    """Write a file that was asked for."""
    try:
        if path:
            path.write_text(text, encoding="utf8")
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror}. The results are kept.") from error


def table(made: Record) -> str:
    """The rows for people; medians over prompts, with the 95 % interval where there are prompts enough for one."""
    lines = [f"{'setting':28}{'tau':>7}{'tok/s':>9}{'95 %':>19}{'speed-up':>10}{'same text':>11}"]
    for row in made["rows"]:
        low, high = row["tokens_per_second_low"], row["tokens_per_second_high"]
        bounds = "" if low is None else f"{low:.1f} to {high:.1f}"
        faster = "" if row["speedup"] is None else f"{row['speedup']:.2f} ×"
        same = f"{row['same_text']}/{row['compared']}"
        lines.append(f"{row['label']:28}{row['tau']:>7.2f}{row['tokens_per_second']:>9.1f}{bounds:>19}{faster:>10}"
                     f"{same:>11}")
    lines += [f"{each['label']}: {each['failure']}" for each in made["failures"][:5]]
    if best := made["recommended"]:
        lines += ["", f"Fastest here: {best['label']}, {best['tokens_per_second']:.1f} tokens/s.", best["command"]]
    return "\n".join(lines)


def main() -> int:
    """Measure and print; exit 1 with one sentence where that is not possible."""
    choice = parser().parse_args()
    try:
        made = sweep(choice)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Stopped. What was measured is in {choice.out}; --resume goes on.", file=sys.stderr)
        return 130
    print(table(made))
    print(json.dumps({name: value for name, value in made.items() if name not in DETAILS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
