"""The forms in which a measurement is exported: one self-contained HTML file, a table, every run.

The HTML holds the figures as data, plotly.js to draw them and everything that was said, so that it opens from disk
without a network; what was measured, on what, and the command lines are plain text in it.
"""

import io
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas
from plotly.offline import get_plotlyjs

from engine.errors import RequestError
from engine.lab.report import report, runs_csv, table_csv
from engine.lab.settings import CellResult
from engine.lab.store import StoredSweep
from engine.lab.summary import Summary, summarise
from explorer.bundle import ASSETS
from explorer.export import Download
from explorer.lab.acceptance import calibration_figure, depth_rank_figure, histogram_figure, readings_at
from explorer.lab.concurrency import concurrency_view
from explorer.lab.curves import curves_view
from explorer.lab.style import drafts, line_of
from explorer.lab.table import table_view
from explorer.view import View

MEDIA = {"html": "text/html", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
MOST_FAILURES = 20  # that are listed


def saved(kind: str, stored: StoredSweep, measured: Sequence[CellResult]) -> Download:
    """The measurement as ``html``, ``csv`` or ``parquet``; RequestError for another form, or with nothing measured."""
    if kind not in MEDIA:
        raise RequestError(f"There is no report {kind[:20]!r}; choose one of {', '.join(MEDIA)}.")
    if not any(result.reading for result in measured):
        raise RequestError("Nothing has been measured yet; press Measure first.")
    record = report(stored, measured)
    if kind == "html":
        data = html_page(stored, measured, record).encode()
    elif kind == "csv":
        data = table_csv(record).encode()
    else:
        data = _parquet(stored, measured, record)
    return Download(f"canopy-measurement-{stored.number}.{kind}", MEDIA[kind], data)


def _parquet(stored: StoredSweep, measured: Sequence[CellResult], record: Mapping[str, Any]) -> bytes:
    """Every run; the whole report, settings, hardware and command lines included, is in the file's metadata."""
    runs = pandas.read_csv(io.StringIO(runs_csv(stored.plan, measured)), keep_default_na=True)
    runs.attrs["canopy"] = record
    return bytes(runs.to_parquet(index=False))


def html_page(stored: StoredSweep, measured: Sequence[CellResult], record: Mapping[str, Any]) -> str:
    """The report as one file."""
    summary = summarise(stored.plan.settings, measured)
    tables = [table_view(summary.at(count)) for count in summary.counts or (1,)]  # the first recommends
    parts = {
        "TITLE": escape(f"Measurement {stored.number}, {record['rig']}"), "VERDICT": _verdict(tables[0]),
        "FACTS": _facts(record), "TABLE": _table([row for table in tables for row in table["rows"]]),
        "COMMANDS": _commands(record), "FAILURES": _failures(record), "PLOTLY": get_plotlyjs(),
        "STYLE": "".join((ASSETS / name).read_text("utf8") for name in ("stage.css", "lab/lab.css")),
        "FIGURES": _inside([{"caption": caption, **figure} for caption, figure in figures(stored, measured, summary)]),
        "DATA": _inside(record)}
    # one pass over the page, so that nothing inside a part is taken for a mark
    return re.sub(r"<!--([A-Z]+)-->", lambda mark: parts[mark[1]], (ASSETS / "lab/report.html").read_text("utf8"))


def figures(stored: StoredSweep, measured: Sequence[CellResult], summary: Summary) -> list[tuple[str, View]]:
    """The figures of a report, each with its caption; of several requests at once, the curve that is fastest."""
    drawn = [("τ and tokens per second against the node budget: medians over prompts with 95 % intervals. "
              "Thin horizontal lines: auto, where each round verifies as many nodes as pay.",
              curves_view(summary.at(min(summary.counts, default=1)))["figure"])]
    concurrent = concurrency_view(summary, stored.plan.settings)
    if concurrent["count"] and len(concurrent["table"]["rows"]) > 1:
        line, sentences = concurrent["line"], " ".join(concurrent["words"])
        drawn += [(f"Total tokens per second of {line} over node budget and requests at once. {sentences}",
                   concurrent["heat"]),
                  (f"Tokens per second of each request of {line}, against requests at once.", concurrent["each"])]
    best = summary.best
    if best is None or not drafts(best.setting):
        return drawn
    readings, label, nodes = readings_at(measured, best.setting.nodes), line_of(best.setting), best.setting.nodes
    return [*drawn,
            (f"Acceptance lengths at the node budget {nodes}: the share of rounds by tokens added, root included.",
             histogram_figure(readings)),
            (f"Acceptance by depth and rank of {label} at the node budget {nodes}.",
             depth_rank_figure(label, readings[best.setting.method, label])),
            (f"Calibration at the node budget {nodes}: expected tokens per round against those that came of it.",
             calibration_figure(readings))]


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
    lines = {"The measurement again": record["command"]}
    if record["recommended"]:
        lines["The recommended setting on a prompt"] = record["recommended"]["command"]
    return "".join(f"<h3>{name}</h3><pre>{escape(line)}</pre>" for name, line in lines.items())


def _failures(record: Mapping[str, Any]) -> str:
    failures = record["failures"]
    items = "".join(f"<li>{escape(run['label'])}: {escape(run['failure'])}</li>" for run in failures[:MOST_FAILURES])
    return f"<h2>{len(failures)} runs failed</h2><ul>{items}</ul>" if items else ""
