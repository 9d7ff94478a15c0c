"""Which method and budget are fastest here: methods × budgets over a prompt set, interleaved, kept in one file.

    python -m engine sweep --methods dflash ddtree joint --budgets 16 32 64 --prompts bench --out results.sqlite
    python -m engine sweep --methods ddtree --budgets 4 8 16 32 64 --concurrency 1 2 4 8     # requests at once

Plain decoding is always measured too. A sweep may be stopped at any time; ``--resume`` continues the file's latest
sweep with its own settings. Prints a table, then one JSON line; the exit status is 1 if a run failed.
"""

import argparse
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

from tqdm import tqdm

from engine.commands import Outcome, aligned, flags
from engine.commands.flags import SAMPLING, add_flags
from engine.errors import FileError, RequestError
from engine.lab.report import Record, report, runs_csv, table_csv
from engine.lab.settings import SweepPlan, check, file_of, prompt_set, settings
from engine.lab.speed import rate_text, speed_record
from engine.lab.store import Results, Store, files_of
from engine.lab.sweeping import LocalWorkers, Workers, run_sweep
from engine.machine.files import replace_file
from engine.measure.instruments import laboratory
from engine.measure.ray_workers import connect_workers
from engine.requests.limits import TRIED_BUDGETS

MAX_WORKERS = 10_000
DEFAULT_METHODS = ("dflash", "ddtree", "joint")
DETAILS = ("categories", "histograms", "acceptance", "calibration")  # too long for a line: for --report


def add(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what is measured")
    add_flags(what, "--rig", "--dtype")
    add_flags(what, "--methods", help=f"{flags.FLAGS['--methods']['help']} (default: those of "
              f"{' '.join(DEFAULT_METHODS)} that the rig runs)")
    add_flags(what, "--budgets", type=flags.budget_or_auto, default=list(TRIED_BUDGETS),
              help="drafted nodes per round; auto for as many as pay in each")
    add_flags(what, "--concurrency", default=[1])
    add_flags(what, "--split", "--drafters", *SAMPLING, "--repeats")
    add_flags(what, "--limit", help=f"{flags.FLAGS['--limit']['help']} (default: all)")
    add_flags(what, "--prompts", default="bench")
    add_flags(what, "--max-tokens", default=128)
    how = parser.add_argument_group("how and where to")
    how.add_argument("--out", type=flags.writable_file, default=Path("results.sqlite"), metavar="FILE",
                     help="the results file")
    how.add_argument("--resume", action="store_true", help="go on with the latest sweep of the file")
    how.add_argument("--ray", type=flags.parse_text, metavar="ADDRESS",
                     help="measure on a Ray cluster; 'local' starts one here")
    how.add_argument("--workers", type=flags.int_between(1, MAX_WORKERS), metavar="N",
                     help="how many Ray workers (default: one a GPU, else one a host)")
    for flag, content in (("--csv", "the table"), ("--runs-csv", "every run"),
                          ("--report", "everything that the page draws, as JSON,")):
        how.add_argument(flag, type=flags.writable_file, metavar="FILE", help=f"write {content} to this file")
    parser.set_defaults(json=True)


def plan_of(args: argparse.Namespace) -> SweepPlan:
    compared_settings = settings(args.methods or DEFAULT_METHODS, args.budgets, args.split, tuple(args.drafters),
                                 flags.sampling_of(args), args.concurrency)
    return SweepPlan(prompt_set(args.prompts, args.limit), compared_settings, args.repeats, args.max_tokens, args.seed,
                     args.rig, args.dtype, args.prompts)


def latest(path: Path) -> tuple[int, SweepPlan]:
    with Results(path) as results:
        sweeps = results.sweeps()
    if not sweeps:
        raise RequestError(f"There is no sweep in {path.name} to resume; begin one without --resume.")
    return sweeps[-1].number, sweeps[-1].plan


def run(args: argparse.Namespace) -> Outcome:
    """Measure; parts of the report that are too long for a line are only in --report."""
    try:
        record = sweep(args)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"Stopped. What was measured is in {args.out}; --resume goes on.") from error
    result = {name: value for name, value in record.items() if name not in DETAILS}
    return Outcome(result, table(record), failed=bool(record["failed"]))


def sweep(args: argparse.Namespace) -> Record:
    must_differ(args)
    number, plan = latest(args.out) if args.resume else (0, plan_of(args))
    opened = partial(laboratory, plan.rig, plan.dtype)
    local = None if args.ray else opened()
    workers: Workers = LocalWorkers(local) if local else connect_workers(opened, args.ray, args.workers)
    if not args.methods and not args.resume:
        plan = replace(plan, settings=tuple(one for one in plan.settings if one.method in workers.methods))
    check(plan, workers.methods, workers.drafters)
    with Store(args.out) as store:
        number = number or store.begin(plan, workers.conditions)
        with tqdm(total=len(plan), initial=store.sweep(number).done, unit="run") as bar:
            for step in run_sweep(store, number, workers, Event()):
                bar.set_postfix_str(f"{step.seconds_left:.0f} s left")
                bar.update(step.done - bar.n)
        measured = store.measured(number)
        ran = next((result.cell for result in measured if result.reading), None)
        record = report(store.sweep(number), measured, local.cost(plan.request(ran)) if local and ran else None)
    write(args.csv, table_csv(record))
    write(args.runs_csv, runs_csv(plan, measured))
    write(args.report, json.dumps(record, ensure_ascii=False, indent=1))
    return record


def must_differ(args: argparse.Namespace) -> None:
    """Raise RequestError if a file to write is one that is read, belongs to the results file, or is written twice."""
    flag_of = dict.fromkeys(files_of(args.out), "--out")
    for flag, path in (("--prompts", file_of(args.prompts)), ("--csv", args.csv), ("--runs-csv", args.runs_csv),
                       ("--report", args.report)):
        first = flag_of.setdefault(Path(os.path.realpath(path)), flag) if path else flag
        if first != flag:
            raise RequestError(f"{first} and {flag} name the same file, {path.name}, or one that belongs to it; name "
                               "two.")


def write(path: Path | None, text: str) -> None:
    try:
        if path:
            replace_file(path, text.encode())
    except FileError as error:
        raise RequestError(f"The file cannot be written to {error} The results are kept.") from error


def table(record: Record) -> str:
    """Format the rows, over all prompts and by category: medians over prompts, with the 95 % interval if there is one.
    "Pays from" is the τ from which a setting beats plain decoding, measured and modelled."""
    head = ["setting", "tau", "pays from", "modelled", "tok/s", "95 %", "each", "speed-up", "same text"]
    lines = [aligned([head, *map(columns, record["rows"])])]
    if len(record["categories"]) > 1:
        for category, rows in record["categories"].items():
            lines += ["", f"{category}:", aligned([head, *map(columns, rows)])]
    lines += [f"{failure['label']}: {failure['failure']}" for failure in record["failures"][:5]]
    if best := record["recommended"]:
        lead = "Most tokens/s" if best["speedup_withheld"] else "Fastest here"
        lines += ["", f"{lead}: {best['label']}, {rate_text(best['total_tokens_per_second'])} tokens/s. "
                  f"{best['speedup_withheld']}".rstrip(), best["command"]]
    lines += [sentence for words in record["load"].values() for sentence in ("", *words)]
    return "\n".join(lines)


def columns(row: Record) -> list[object]:
    low, high = row["total_tokens_per_second_low"], row["total_tokens_per_second_high"]
    total, ratio = row["total_tokens_per_second"], row["speedup"]
    pays_from = ("–" if tau is None else f"{tau:.2f}" for tau in (row["break_even"], row["modelled_break_even"]))
    return [row["label"], f"{row['tau']:.2f}", *pays_from, rate_text(total),
            None if low is None else f"{low:.1f} to {high:.1f}", f"{row['tokens_per_second']:.1f}",
            speed_record(total, total / ratio).times if ratio else "–", f"{row['same_text']}/{row['compared']}"]
