"""A sweep as plain records, for the page, reports, CSV files and other programs."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from engine.budget.cost import CostCurve
from engine.decoding.methods import METHODS
from engine.lab.reading import Reading
from engine.lab.settings import CellResult, Setting, SweepPlan
from engine.lab.statistics import Estimate, acceptance, calibration, histogram
from engine.lab.summary import Row, by_category, concurrency_words, curves, modelled_break_evens, summarise

if TYPE_CHECKING:
    from engine.lab.store import StoredSweep  # imports pydantic, which the page's first seconds do without

Record = dict[str, Any]


def report(stored: StoredSweep, measured: Sequence[CellResult], cost: CostCurve | None = None) -> Record:
    """Return the report of a sweep as JSON values.

    ``recommended`` is the fastest lossless row with the command line that runs it, or None; ``ridge`` has that row for
    each concurrency, and ``load`` says at which budgets drafting pays. With the ``cost`` of a round, rows of one
    request have ``modelled_break_even``.
    """
    plan = stored.plan
    summary = summarise(plan.settings, measured)
    readings: dict[Setting, list[Reading]] = {setting: [] for setting in plan.settings}
    for result in measured:
        if result.reading:
            readings[result.cell.setting].append(result.reading)
    read = [(_named(setting), group) for setting, group in readings.items() if group]
    bests = [{**_record(best), "command": run_command(plan, best.setting)}
             for count in summary.counts if (best := summary.at(count).best)]
    return {
        "sweep": stored.number, "started": stored.started, **asdict(stored.conditions),
        "prompt_set": plan.prompt_set, "prompts": len(plan.prompts), "repeats": plan.repeats,
        "max_tokens": plan.max_tokens, "seed": plan.seed, "cells": len(plan), "done": len(measured),
        "failed": sum(result.reading is None for result in measured), "complete": len(measured) == len(plan),
        "rows": _records(plan, measured, cost),
        "categories": {category: _records(plan, results, cost)
                       for category, results in by_category(plan, measured).items()},
        "histograms": [{**labels, "counts": list(histogram(group))} for labels, group in read],
        "acceptance": [{**labels, **asdict(cell), "rate": cell.rate} for labels, group in read
                       for cell in acceptance(group)],
        "calibration": [{**labels, **asdict(bins)} for labels, group in read if (bins := calibration(group))],
        "failures": [{**_named(result.cell.setting), "prompt": plan.prompts[result.cell.prompt].text[:80],
                      "repeat": result.cell.repeat, "failure": result.failure}
                     for result in measured if result.reading is None],
        "recommended": next(iter(bests), None), "ridge": bests,
        "load": {curve.label: concurrency_words(summary, curve) for curve in curves(summary)
                 } if any(row.setting.concurrency > 1 for row in summary.rows) else {},
        "command": sweep_command(plan)}


def _records(plan: SweepPlan, measured: Sequence[CellResult], cost: CostCurve | None) -> list[Record]:
    modelled = modelled_break_evens(measured, cost)
    return [{**_record(row), "modelled_break_even": modelled.get(row.setting)}
            for row in summarise(plan.settings, measured).rows]


def _record(row: Row) -> Record:
    return {
        **_named(row.setting), "runs": row.runs, "failed": row.failed, "tokens": row.tokens, "rounds": row.rounds,
        "pooled_tau": row.pooled_tau, **_flat("tau", row.tau), **_flat("tokens_per_second", row.tokens_per_second),
        **_flat("total_tokens_per_second", row.total), **_flat("speedup", row.speedup),
        **_flat("break_even", row.break_even), "speedup_withheld": row.withheld, "same_text": row.same_text,
        "repeating": row.repeating, "compared": row.compared, "lossless": METHODS[row.setting.method].lossless}


def _named(setting: Setting) -> Record:
    return {"label": setting.label, **asdict(setting), "drafters": "+".join(setting.drafters)}


def _flat(name: str, estimate: Estimate | None) -> Record:
    fields = asdict(estimate) if estimate else dict.fromkeys(Estimate.__annotations__)
    return {name: fields.pop("median"), **{f"{name}_{field}": value for field, value in fields.items()}}


def run_command(plan: SweepPlan, setting: Setting) -> str:
    """Return the command line that runs a setting on the first prompt, or measures it at its concurrency."""
    if setting.concurrency > 1:
        return sweep_command(replace(plan, settings=(setting.baseline, setting)))
    words = ["python", "-m", "engine", "generate", "--rig", plan.rig, "--dtype", plan.dtype, "--method",
             setting.method, "--budget", setting.budget_label, "--split", setting.split, *_sampling(setting),
             "--max-tokens", str(plan.max_tokens)]
    drafters = ["--drafters", *setting.drafters] if setting.drafters else []
    return shlex.join([*words, *drafters, "--prompt", plan.prompts[0].text])


def sweep_command(plan: SweepPlan) -> str:
    """Return the command line that runs the sweep again: the product of its methods and budgets."""
    methods = dict.fromkeys(setting.method for setting in plan.settings)
    budgets = dict.fromkeys(setting.budget_label for setting in plan.settings if setting.drafts)
    splits = {setting.split for setting in plan.settings}
    words = ["python", "-m", "engine", "sweep", "--rig", plan.rig, "--dtype", plan.dtype, "--methods", *methods,
             *(["--budgets", *budgets] if budgets else []), "--split", "each" if "each" in splits else "total",
             *_sampling(plan.settings[0]), "--prompts", plan.prompt_set, "--limit", str(len(plan.prompts)),
             "--repeats", str(plan.repeats), "--max-tokens", str(plan.max_tokens), "--seed", str(plan.seed)]
    counts = sorted({setting.concurrency for setting in plan.settings if setting.drafts}
                    or {setting.concurrency for setting in plan.settings})
    words += ["--concurrency", *map(str, counts)] if counts != [1] else []
    drafters = next((setting.drafters for setting in plan.settings if setting.drafters), ())
    return shlex.join([*words, *(["--drafters", *drafters] if drafters else [])])


def _sampling(setting: Setting) -> list[str]:
    return ["--temperature", str(setting.temperature), "--top-k", str(setting.top_k), "--top-p", str(setting.top_p)]


def table_csv(sweep_record: Record) -> str:
    """Return the table as CSV, a line per setting, each with its conditions and the sweep's command line."""
    versions = " ".join(f"{name} {version}" for name, version in sweep_record["versions"].items())
    about = {name: sweep_record[name] for name in ("rig", "hardware", "dtype", "prompt_set", "prompts", "repeats",
                                           "max_tokens", "seed", "started", "complete")}
    best = sweep_record["recommended"]["label"] if sweep_record["recommended"] else None
    return _csv([{**row, "recommended": row["label"] == best, **about, "versions": versions,
                  "command": sweep_record["command"]} for row in sweep_record["rows"]])


FIGURES = ("tau", "tokens_per_second", "total_tokens_per_second", "tokens", "rounds", "seconds", "prefill_seconds")


def runs_csv(plan: SweepPlan, measured: Sequence[CellResult]) -> str:
    """Return every run as CSV, a line per cell; one that failed has no figures."""
    return _csv([{
        **_named(result.cell.setting), "prompt": result.cell.prompt,
        "category": plan.prompts[result.cell.prompt].category, "repeat": result.cell.repeat,
        "hardware": result.hardware, "failure": result.failure,
        **{name: getattr(result.reading, name, None) for name in FIGURES}} for result in measured])


def _csv(records: Sequence[Record]) -> str:
    text = io.StringIO()
    if records:
        writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return text.getvalue()
