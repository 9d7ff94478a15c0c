"""The page's lab: the functions that the browser may call, and the component that shows it."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Mapping
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import gradio as gr
from plotly.offline import get_plotlyjs

from engine.decoding.methods import METHODS
from engine.errors import RequestError
from engine.lab.report import run_command
from engine.lab.settings import BASELINE, CellResult
from engine.lab.statistics import reading_of
from engine.lab.store import StoredSweep
from engine.lab.summary import summarise
from engine.requests.limits import TRIED_CONCURRENCY
from engine.trace import Trace
from explorer.browser_calls import browser_call, served
from explorer.lab.acceptance_figures import calibration_figure, depth_rank_figure, histogram_figure
from explorer.lab.anatomy import anatomy_view
from explorer.lab.concurrency import GridFocus, concurrency_view
from explorer.lab.curves import live_figure
from explorer.lab.recorded import is_recorded
from explorer.lab.report import saved
from explorer.lab.server import ServerTab
from explorer.lab.style import looks_view
from explorer.lab.sweep_form import OFFERED, OPENING, PromptSets, limits, plan_from
from explorer.lab.sweeps import Sweeps, seconds_per_run
from explorer.lab.table import curves_view, readings_at, table_view
from explorer.lab.tools import Tools
from explorer.recordings import TOURED
from explorer.rig import AnsweringRig
from explorer.run_queue import Jobs, RunQueue
from explorer.view import View

TOOLS = ("what_if", "cost", "race", "doctor")  # what needs a rig besides sweeps


class LabService:
    """One rig, its sweeps, and whatever of them the browser asks for."""

    def __init__(self, rig: AnsweringRig, trace_of: Callable[[str], Trace], queue: RunQueue, path: Path) -> None:
        self._rig = rig
        self._trace_of = trace_of
        self._sets = PromptSets()
        self._sweeps = Sweeps(rig, queue, path)
        self._jobs = Jobs(queue)
        self._tools = Tools(rig, trace_of, self._jobs)
        self._server = ServerTab(rig, self._sets, self._jobs)

    def functions(self) -> list[Callable[[Any], Any]]:
        """What the browser calls by name; each takes one value and gives one, or {"error": a sentence}."""
        answers: Mapping[str, Callable[[Any], Any]] = {
            "lab_given": lambda _: self.given(), "lab_plotly": lambda _: self.plotly,
            "lab_progress": self.progress, "lab_curves": self.curves,
            "lab_start": self.start, "lab_control": self.control, "lab_delete": self.delete,
            "lab_prompts": self.prompts, "lab_upload": self._sets.uploads.take,
            "lab_shapes": self.shapes, "lab_report": self.report,
            "lab_what_if": self._tools.what_if, "lab_cost": self._tools.cost, "lab_race": self._tools.race,
            "lab_anatomy": self.anatomy, "lab_concurrency": self.concurrency,
            "lab_concurrency_cost": self._tools.concurrent_cost,
            "lab_doctor": self._tools.doctor, "lab_job": self._jobs.look,
            "lab_server_look": self._server.look, "lab_server_load": self._server.load}
        return [browser_call(name, answer) for name, answer in answers.items()]

    def given(self) -> View:
        """What the lab opens with: the choices there are, the defaults, the empty live figure. RequestError until the
        page's first rig is there."""
        if waiting := self._rig.waiting():
            raise RequestError(waiting)
        instruments, opening = self._rig.instruments, OPENING.model_dump()
        conditions = instruments.laboratory.conditions
        methods = list(instruments.laboratory.methods)
        settled = {**opening, "methods": [name for name in opening["methods"] if name in methods]}
        return {
            "rig": conditions.rig, "hardware": conditions.hardware, "opening": TOURED, "reason": instruments.reason,
            "looks": looks_view(), "live": live_figure(),
            "tools": [*(() if instruments.reason else TOOLS), *(["server"] if self._server.offered else [])],
            "settled": settled, "options": {
                "methods": methods, "baseline": BASELINE, "budgets": list(OFFERED),
                "concurrency": list(TRIED_CONCURRENCY), "limits": limits(),
                "sets": self._sets.view(),
                "drafter_counts": {name: METHODS[name].drafter_count for name in methods},
                "summaries": {name: METHODS[name].summary for name in methods}}}

    @cached_property
    def plotly(self) -> str:
        """plotly.js as base64 of its gzip: 2 MB that a browser asks for when it first opens the lab."""
        return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()

    def progress(self, wanted: Mapping[str, Any]) -> View:
        """The progress of a sweep: {"sweep": its number, or None for the one that the page shows}."""
        return self._sweeps.progress_view(wanted.get("sweep"))

    def start(self, form: Mapping[str, Any]) -> View:
        """Begin the sweep that the form asks for."""
        if self._rig.instruments.reason:
            raise RequestError(self._rig.instruments.reason)
        plan = plan_from(form, self._sets, self._rig.instruments.laboratory, self._rig.instruments.rig)
        return {"sweep": self._sweeps.start(plan)}

    def control(self, wanted: Mapping[str, Any]) -> View:
        """Pause, resume or stop a sweep: {"do", "sweep"}."""
        acts = {"pause": self._sweeps.pause, "resume": self._sweeps.resume, "stop": self._sweeps.stop}
        act = acts.get(str(wanted.get("do")))
        if act is None:
            raise RequestError(f"A sweep cannot {str(wanted.get('do'))[:20]!r}; it can {', '.join(acts)}.")
        stored = self._stored(wanted)
        answering = self._rig.instruments.rig
        if act == self._sweeps.resume and stored.plan.rig != answering:
            raise RequestError(f"Sweep {stored.number} was begun on the rig {stored.plan.rig}, and {answering} answers "
                               "now; choose that rig, then resume.")
        act(stored.number)
        return {}

    def delete(self, wanted: Mapping[str, Any]) -> View:
        """Forget a sweep and its results: {"sweep"}. Where that is gone, no other one takes its place."""
        number = wanted.get("sweep")
        if not isinstance(number, int):
            raise RequestError("No measurement was named, so none is deleted.")
        if is_recorded(number):
            raise RequestError("The recorded measurement belongs to the page; only those made here can be deleted.")
        self._sweeps.delete(number)
        return {}

    def prompts(self, upload: Mapping[str, Any]) -> View:
        """Take a prompt file; the sets there are now, and which is the new one."""
        chosen = self._sets.add(upload)
        return {"chosen": chosen, "sets": self._sets.view()}

    def curves(self, wanted: Mapping[str, Any]) -> View:
        """The curves and the table of ``concurrency`` requests at once: {"sweep", "points": single runs of the browser,
        "what_if": a run's id, "line": which curve of it, "concurrency"}. Single runs and their predictions are of one
        request alone and of the loaded rig, so they stand beside no sweep of another."""
        stored = self._sweeps.chosen(wanted.get("sweep"))
        other_rig = stored is not None and self._sweeps.of_another_rig(stored)
        measured = self._sweeps.measured(stored.number) if stored else []
        whole = (summarise(stored.plan.settings, measured, self._sweeps.rows(stored.number)) if stored
                 else summarise((), ()))
        asked = wanted.get("concurrency")
        concurrency = asked if asked in whole.counts else min(whole.counts, default=1)
        summary, beside = whole.at(concurrency), concurrency == 1 and not other_rig
        forecast = self._tools.forecast(wanted.get("what_if")) if beside else None
        points = self._of_here(wanted.get("points")) if beside else []
        return {"curves": curves_view(summary, points, forecast, str(wanted.get("line"))),
                "table": table_view(summary) if stored else None, "counts": list(whole.counts),
                "concurrency": concurrency,
                "command": run_command(stored.plan, summary.best.setting) if stored and summary.best else "",
                "seconds_per_run": None if stored is None or other_rig or is_recorded(stored.number)
                else seconds_per_run(measured)}

    def concurrency(self, wanted: Mapping[str, Any]) -> View:
        """Several requests at once: {"sweep", "line": of which method, "concurrency": the chosen number of requests,
        "prediction": a run's id}. Where the recorded sweep is of one request alone, a recorded one of several is
        shown; beside a sweep of another rig, no prediction."""
        stored = self._sweeps.of_several(self._sweeps.chosen(wanted.get("sweep")))
        measured = self._sweeps.measured(stored.number) if stored else []
        prediction = self._tools.concurrency_prediction(wanted.get("prediction"))
        if stored and self._sweeps.of_another_rig(stored):
            prediction = None
        concurrency = wanted.get("concurrency")
        looked = GridFocus(str(wanted.get("line")), concurrency if isinstance(concurrency, int) else 1)
        return concurrency_view(stored, measured, prediction, looked,
                                self._sweeps.rows(stored.number) if stored else None)

    def shapes(self, wanted: Mapping[str, Any]) -> View:
        """Histogram, depth and rank, calibration: of a run {"run"}, or of {"sweep", "nodes", "line": of the map}."""
        if "run" in wanted:
            trace = self._trace_of(str(wanted["run"]))
            method = trace.header.request.method
            plain = trace.header.chunked or method in METHODS and not METHODS[method].drafter_count
            readings = {} if plain or not trace.entries else {(method, method): [reading_of(trace)]}
        else:
            readings = readings_at(self._measured(wanted), str(wanted.get("nodes")))
        if not readings:
            return {"histogram": None, "map": None, "calibration": None}
        line = str(wanted.get("line"))
        label, chosen = next(((name, of_setting) for (_, name), of_setting in readings.items() if name == line),
                             next((name, of_setting) for (_, name), of_setting in readings.items()))
        believed = all(isfinite(length) for of_setting in readings.values() for reading in of_setting
                       for length in reading.expected)
        return {"histogram": histogram_figure(readings), "map": depth_rank_figure(label, chosen),
                "calibration": calibration_figure(readings) if believed else None}

    def anatomy(self, wanted: Mapping[str, Any]) -> View:
        """Where a tree pays, in the rounds of a run {"run"}, also as predicted for {"model", "device"}."""
        forecast = self._tools.forecast(wanted.get("run"))
        return anatomy_view(self._trace_of(str(wanted.get("run"))), forecast.cost if forecast else None,
                            str(wanted.get("model")), str(wanted.get("device")))

    def report(self, wanted: Mapping[str, Any]) -> bytes:
        """A measurement as a file: {"sweep", "kind": html, csv or parquet} gives {"name", "media", "data": base64} as
        JSON."""
        stored = self._stored(wanted)
        return saved(str(wanted.get("kind")), stored, self._sweeps.measured(stored.number)).as_json()

    def _of_here(self, runs: object) -> list[Any]:
        """Those of a browser's single runs that are of the loaded rig on this machine; none where it sent something
        else."""
        here = self._rig.instruments.laboratory.conditions
        return [run for run in (runs if isinstance(runs, list) else []) if isinstance(run, Mapping)
                and (run.get("rig"), run.get("hardware")) == (here.rig, here.hardware)]

    def _stored(self, wanted: Mapping[str, Any]) -> StoredSweep:
        stored = self._sweeps.chosen(wanted.get("sweep"))
        if stored is None:
            raise RequestError("Nothing has been measured yet; press Measure first.")
        return stored

    def _measured(self, wanted: Mapping[str, Any]) -> list[CellResult]:
        return self._sweeps.measured(self._stored(wanted).number)


def lab_component(lab: LabService, template: str) -> gr.HTML:
    """The lab as a component of the page. Its event ``adopt`` carries a setting for the controls."""
    return gr.HTML(
        elem_id="canopy-lab", html_template=template, padding=False, apply_default_css=False,
        server_functions=served(lab.functions()),
        js_on_load="Canopy.lab.open(element, server, (setting) => trigger('adopt', setting));")
