"""The forms in which a measurement is exported: one self-contained HTML file, a table, every run.

The HTML holds the figures as data, plotly.js to draw them and everything that was said, so that it opens from disk
without a network; what was measured, on what, and the command lines are plain text in it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

import pandas
from plotly.offline import get_plotlyjs

from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.report import report, runs_csv, table_csv
from engine.lab.settings import CellResult
from engine.lab.store import StoredSweep
from engine.lab.summary import Summary, summarise
from explorer.bundle import ASSETS
from explorer.lab.acceptance_figures import calibration_figure, depth_rank_figure, histogram_figure
from explorer.lab.concurrency import GridFocus, concurrency_view
from explorer.lab.table import curves_view, readings_at, table_view
from explorer.share import Download
from explorer.view import View

PAGE = ASSETS / "lab" / "report.html"


def figures(stored: StoredSweep, measured: Sequence[CellResult]) -> list[tuple[str, View]]:
    """The figures of a report, each with its caption."""
    summary = summarise(stored.plan.settings, measured)
    alone = summary.at(min(summary.counts, default=1))
    drawn = [("τ and tokens per second against the node budget: medians over prompts with 95 % intervals. "
              "Thin horizontal lines: auto, where each round verifies as many nodes as pay.",
              curves_view(alone, [])["figure"])]
    drawn += load_figures(stored, measured)
    best = summary.best
    if best is None or not METHODS[best.setting.method].drafter_count:
        return drawn
    nodes = best.setting.nodes
    readings_of = readings_at(measured, nodes)
    of_best = [(label, of_setting) for (method, label), of_setting in readings_of.items()
               if method == best.setting.method]
    label, readings = next(iter(of_best or [(label, of_setting) for (_, label), of_setting in readings_of.items()]))
    at = f"at the node budget {nodes}"
    return [*drawn,
            (f"Acceptance lengths {at}: the share of rounds by tokens added, root included.",
             histogram_figure(readings_of)),
            (f"Acceptance by depth and rank of {label} {at}.", depth_rank_figure(label, readings)),
            (f"Calibration {at}: expected tokens per round against those that came of it.",
             calibration_figure(readings_of))]


def load_figures(stored: StoredSweep, measured: Sequence[CellResult]) -> list[tuple[str, View]]:
    """Those of several requests at once, where there were any: the curve that is fastest for one."""
    view = concurrency_view(stored, measured, None, GridFocus())
    if not view["count"] or len(view["table"]["rows"]) < 2:
        return []
    sentences = " ".join(view["words"])
    return [(f"Total tokens per second of {view['line']} over node budget and requests at once. {sentences}",
             view["heat"]),
            (f"Tokens per second of each request of {view['line']}, against requests at once.", view["each"])]


def tables_of(summary: Summary) -> list[View]:
    """A table for each number of requests at once; the first is what the report recommends from."""
    return [table_view(summary.at(count)) for count in summary.counts or (1,)]


def html_page(stored: StoredSweep, measured: Sequence[CellResult]) -> str:
    """The report as one file."""
    record, tables = report(stored, measured), tables_of(summarise(stored.plan.settings, measured))
    parts = {
        "TITLE": escape(f"Measurement {stored.number}, {record['rig']}"), "VERDICT": _verdict(tables[0]),
        "FACTS": _facts(record), "TABLE": _table([
            row for table in tables for row in table["rows"]]), "COMMANDS": _commands(record), "PLOTLY": get_plotlyjs(),
        "FAILURES": _failures(record), "STYLE": (ASSETS / "stage.css").read_text("utf8") + (
            ASSETS / "lab" / "lab.css").read_text("utf8"),
        "FIGURES": _inside([{"caption": caption, **figure} for caption, figure in figures(stored, measured)]),
        "DATA": _inside(record)}
    # one pass over the page, so that nothing inside a part is taken for a mark
    return re.sub(r"<!--([A-Z]+)-->", lambda mark: parts[mark[1]], PAGE.read_text("utf8"))


def _inside(value: Any) -> str:
    """JSON for a script element: nothing in it can end the element."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def _verdict(table: View) -> str:
    best = table["best"]
    if best is None:
        return "<p>Nothing has been measured yet.</p>"
    speedup = f", {best['speedup']['median']:.2f} times plain decoding" if best["speedup"] else ""
    return (f"<h2>Fastest here: {escape(best['label'])}</h2><p>{best['speed']['median']:,.0f} tokens per second"
            f"{speedup}, τ {best['tau']['median']:.2f} (root included). {escape(table['remark'])}</p>")


def _facts(record: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record["versions"].items()))
    state = "complete" if record["complete"] else f"{record['done']} of {record['cells']} runs"
    rows = {"Rig": record["rig"], "Hardware": record["hardware"], "Precision": record["dtype"], "Versions": versions,
            "Prompts": f"{record['prompts']} of {record['prompt_set']}", "Repeats": record["repeats"],
            "Max tokens": record["max_tokens"], "Seed": record["seed"], "Begun": record["started"], "State": state}
    return "".join(f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>" for name, value in rows.items())


def _table(rows: Sequence[View]) -> str:
    head = "".join(f"<th scope='col'>{name}</th>" for name in (
        "setting", "tokens/s", "× plain decoding", "τ", "runs", "same text"))
    body = "".join(
        f"<tr{' class=is-best' if row['best'] else ''}><th scope='row'>{escape(row['label'])}</th>"
        f"<td>{_estimate(row['speed'], 0)}</td><td>{_estimate(row['speedup'], 2)}</td><td>{_estimate(row['tau'], 2)}"
        f"</td><td>{row['runs']}</td><td>{row['same_text']} of {row['compared']}</td></tr>" for row in rows)
    return f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"


def _estimate(value: View | None, digits: int) -> str:
    if value is None:
        return "–"
    low, high = (value["least"], value["most"]) if value["low"] is None else (value["low"], value["high"])
    return f"<strong>{value['median']:,.{digits}f}</strong> <small>{low:,.{digits}f} – {high:,.{digits}f}</small>"


def _commands(record: Mapping[str, Any]) -> str:
    lines = [("The measurement again", record["command"])]
    if record["recommended"]:
        lines.append(("The recommended setting on a prompt", record["recommended"]["command"]))
    return "".join(f"<h3>{name}</h3><pre>{escape(line)}</pre>" for name, line in lines)


def _failures(record: Mapping[str, Any]) -> str:
    items = "".join(f"<li>{escape(run['label'])}: {escape(run['failure'])}</li>" for run in record["failures"][:20])
    return f"<h2>{len(record['failures'])} runs failed</h2><ul>{items}</ul>" if items else ""


def _name(stored: StoredSweep, ending: str) -> str:
    return f"canopy-measurement-{stored.number}.{ending}"


def _html(stored: StoredSweep, measured: Sequence[CellResult]) -> Download:
    return Download(_name(stored, "html"), "text/html", html_page(stored, measured).encode())


def _csv(stored: StoredSweep, measured: Sequence[CellResult]) -> Download:
    return Download(_name(stored, "csv"), "text/csv", table_csv(report(stored, measured)).encode())


def _parquet(stored: StoredSweep, measured: Sequence[CellResult]) -> Download:
    """Every run; the whole report, settings, hardware and command lines included, is in the file's metadata."""
    runs = pandas.read_csv(io.StringIO(runs_csv(stored.plan, measured)), keep_default_na=True)
    runs.attrs["canopy"] = report(stored, measured)
    packed = io.BytesIO()
    runs.to_parquet(packed, index=False)
    return Download(_name(stored, "parquet"), "application/vnd.apache.parquet", packed.getvalue())


FORMS: Mapping[str, Callable[[StoredSweep, Sequence[CellResult]], Download]] = MappingProxyType(
    {"html": _html, "csv": _csv, "parquet": _parquet})


def saved(kind: str, stored: StoredSweep, measured: Sequence[CellResult]) -> Download:
    """The measurement in one of the forms ``FORMS``; RequestError for another form, or with nothing measured."""
    if kind not in FORMS:
        raise RequestError(f"There is no report {kind[:20]!r}; choose one of {', '.join(FORMS)}.")
    if not any(result.reading for result in measured):
        raise RequestError("Nothing has been measured yet; press Measure first.")
    return FORMS[kind](stored, measured)
