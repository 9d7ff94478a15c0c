"""The forms in which a measurement is exported: one self-contained HTML file, a table, every run.

The HTML (``assets/lab/report.html``) is self-contained: the figures as data, plotly.js to draw them, and as plain text
the results, the hardware and the command lines.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from engine.errors import RequestError
from engine.lab.report import report, runs_csv, table_csv
from engine.lab.settings import CellResult
from engine.lab.store import StoredSweep
from engine.lab.summary import Summary
from explorer.bundle import ASSETS, script, style
from explorer.export import Download
from explorer.lab.acceptance import calibration_figure, lengths_figure, map_figure, rounds_at
from explorer.lab.concurrency import concurrency_view
from explorer.lab.curves import curves_view
from explorer.lab.style import Figure
from explorer.lab.sweeps import NO_RESULTS, SweepView
from explorer.lab.table import table_view

FORMS = {"html": (".html", "text/html"), "csv": (".csv", "text/csv"), "runs": ("-runs.csv", "text/csv")}
MAX_LISTED_FAILURES = 20


def saved(kind: str, shown: SweepView) -> Download:
    """Export a sweep as ``html``, its settings as ``csv`` or its ``runs`` as CSV; RequestError if nothing is
    measured."""
    if kind not in FORMS:
        raise RequestError(f"There is no report {kind[:20]!r}; choose one of {', '.join(FORMS)}.")
    if shown.stored is None or not shown.summary.rows:
        raise RequestError(NO_RESULTS)
    record = report(shown.stored, shown.measured)
    if kind == "html":
        text = html_page(shown.stored, shown.measured, shown.summary, record)
    elif kind == "csv":
        text = table_csv(record)
    else:
        text = runs_csv(shown.stored.plan, shown.measured)
    ending, media = FORMS[kind]
    return Download(f"canopy-measurement-{shown.stored.number}{ending}", media, text.encode())


def html_page(stored: StoredSweep, measured: Sequence[CellResult], summary: Summary, record: Mapping[str, Any]) -> str:
    """Make the report as one file."""
    tables = [table_view(summary.at(count)) for count in summary.counts]  # the first recommends
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record["versions"].items()))
    facts = {"Rig": record["rig"], "Hardware": record["hardware"], "Precision": record["dtype"], "Versions": versions,
             "Prompts": f"{record['prompts']} of {record['prompt_set']}", "Repeats": record["repeats"],
             "Max tokens": record["max_tokens"], "Seed": record["seed"], "Begun": record["started"],
             "State": "complete" if record["complete"] else f"{record['done']} of {record['cells']} runs"}
    pages = Environment(autoescape=True, loader=FileSystemLoader(ASSETS / "lab"), undefined=StrictUndefined)
    return pages.get_template("report.html").render(
        title=f"Measurement {stored.number}, {record['rig']}", record=record, facts=facts, best=tables[0]["best"],
        remark=tables[0]["remark"], rows=[row for table in tables for row in table["rows"]],
        failures=record["failures"][:MAX_LISTED_FAILURES], style=style("stage.css") + style("lab/lab.css"),
        figures=[{"caption": caption, **figure} for caption, figure in figures(stored, measured, summary)],
        plotly=get_plotlyjs(), script=script("lab/report.js"))


def figures(stored: StoredSweep, measured: Sequence[CellResult], summary: Summary) -> list[tuple[str, Figure]]:
    """Return the figures of a report, each with its caption; of several requests at once, the curve that is fastest."""
    drawn: list[tuple[str, Figure]] = [
        ("τ and tokens per second against the node budget: medians over prompts with 95 % intervals. "
         "Thin horizontal lines: auto, where each round verifies as many nodes as pay.",
         curves_view(summary.at(min(summary.counts, default=1)))["figure"])]
    concurrent = concurrency_view(summary, stored.plan.settings)
    if concurrent["heat"] and len(concurrent["rows"]) > 1:
        drawn.append((f"Total tokens per second of {concurrent['line']} over node budget and requests at once. "
                      f"{' '.join(concurrent['words'])}", concurrent["heat"]))
    best = summary.best
    if best is None or not best.setting.drafts:
        return drawn
    nodes = best.setting.budget_label
    rounds = rounds_at(measured, nodes, best.setting.curve_label)
    return [*drawn,
            (f"Acceptance lengths of {rounds.label} at the node budget {nodes}: the share of rounds by tokens added, "
             "root included.", lengths_figure(rounds)),
            (f"Acceptance by depth and rank of {rounds.label} at the node budget {nodes}.", map_figure(rounds)),
            (f"Calibration of {rounds.label} at the node budget {nodes}: expected tokens per round against those that "
             "came of it.", calibration_figure(rounds))]
