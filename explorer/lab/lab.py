"""The page's lab: the functions that the browser may call, and the component that shows it."""

import base64
import gzip
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import gradio as gr
from plotly.offline import get_plotlyjs

from engine.errors import RequestError
from engine.lab.findings import DoctorFinding, worst_first
from engine.lab.replay import WhatIf
from engine.lab.report import run_command
from engine.lab.summary import by_category, modelled_break_evens, summarise
from engine.lab.sweeping import Progress
from engine.requests.admission import Admission
from engine.requests.limits import TRIED_CONCURRENCY
from engine.servers.counters import CounterHistory
from engine.servers.server import Server
from engine.trace import Trace
from explorer.attached import server_of
from explorer.bounded_dict import BoundedDict
from explorer.browser_calls import as_json_calls, browser_call
from explorer.jobs import Job, Jobs
from explorer.lab import forms, prediction, race
from explorer.lab.acceptance import AcceptanceView, acceptance_view, rounds_at, run_view
from explorer.lab.attached_server import CountersView, counters_view, measure_concurrency
from explorer.lab.concurrency import ConcurrencyView, concurrency_view
from explorer.lab.curves import CurvesView, curves_view
from explorer.lab.recorded import is_recorded
from explorer.lab.report import saved
from explorer.lab.sweeps import NO_RESULTS, SweepProgress, Sweeps, seconds_per_run
from explorer.lab.table import TableRow, TableView, row_view, table_view
from explorer.recordings import LAB_RECORDING
from explorer.rig import CurrentRig, Instruments

MAX_PREDICTIONS = 16  # that are remembered
MAX_SERVER_PROMPTS = 32  # of a set


class LabSetup(TypedDict):
    """What the lab shows first, and what there is to choose from. ``reason``: why nothing can be measured, or "";
    ``server``: whether one is attached."""

    rig: str
    initial_recording: str
    reason: str
    server: bool
    defaults: forms.SweepForm
    methods: list[str]
    budgets: list[int | str]
    concurrency: list[int]
    limits: Mapping[str, float]
    sets: list[forms.PromptSet]


class RunCurves(CurvesView):
    """A sweep's curves, and those that a run predicts."""

    predicted: prediction.PredictedLines


class LabCurves(TypedDict):
    """Curves and table of a sweep at one concurrency, over the prompts of a ``category`` ("" for all), and the cost of
    a pass. ``counts``: the measured concurrencies; ``kinds``: the fastest row of each category; ``command``: runs the
    best setting."""

    curves: RunCurves
    cost: prediction.CostView | None
    table: TableView | None
    counts: list[int]
    concurrency: int
    categories: list[str]
    category: str
    kinds: dict[str, TableRow]
    command: str
    seconds_per_run: float | None


class LabConcurrency(ConcurrencyView):
    """The figures. ``recorded``: when and where a shipped sweep was measured, "" for any other."""

    recorded: str


class PredictionResult(TypedDict):
    """A finished prediction: the run's name, and at how many positions a plain pass chooses another token."""

    what_if: str
    departures: int


class StartedJob(TypedDict):
    """The id of a started job, for ``lab_job``."""

    job: str


class Lab:
    """The lab's browser functions. Long ones start a job, which queues for the rig; ``lab_job`` reports its
    progress."""

    def __init__(self, rig: CurrentRig, trace_of: Callable[[str], Trace], admission: Admission, path: Path,
                 speed_of: Callable[[str], Mapping[str, Any]] = lambda run: {}) -> None:
        self._rig = rig
        self._trace_of = trace_of
        self._speed_of = speed_of
        self._sets = forms.PromptSets()
        self.sweeps = Sweeps(rig, admission, path)
        self._jobs = Jobs(admission)
        # by the rig's title and the run's id
        self._predictions = BoundedDict[tuple[str, str], WhatIf](MAX_PREDICTIONS)
        self._counters: CounterHistory | None = None

    def functions(self) -> list[Callable[[Any], Any]]:
        """Return the functions that the browser calls by name. Each returns its value or {"error": a sentence}."""
        answers: Mapping[str, Callable[[Any], Any]] = {
            "setup": lambda _: self.setup(), "plotly": lambda _: self.plotly, "progress": self.progress,
            "curves": self.curves, "concurrency": self.concurrency, "start": self.start, "control": self.control,
            "delete": self.delete, "prompts": self.prompts, "upload": self._sets.uploads.receive,
            "acceptance": self.acceptance, "predict_on_machine": self.predict_on_machine, "report": self.report,
            "what_if": self.what_if, "race": self.race, "doctor": self.doctor, "job": self._jobs.poll,
            "server_counters": self.server_counters, "server_concurrency": self.server_concurrency}
        return [browser_call(f"lab_{name}", answer) for name, answer in answers.items()]

    def setup(self) -> LabSetup:
        """Return what the lab shows first. RequestError until the page's first rig is loaded."""
        if waiting := self._rig.loading_message():
            raise RequestError(waiting)
        instruments = self._rig.instruments
        methods = list(instruments.laboratory.methods)
        return {
            "rig": instruments.laboratory.conditions.rig, "initial_recording": LAB_RECORDING,
            "reason": instruments.reason, "server": server_of(self._rig.source) is not None,
            "defaults": {**forms.DEFAULT_FORM,
                         "methods": [name for name in forms.DEFAULT_FORM["methods"] if name in methods]},
            "methods": methods, "budgets": list(forms.OFFERED_BUDGETS), "concurrency": list(TRIED_CONCURRENCY),
            "limits": dict(forms.LIMITS), "sets": self._sets.view()}

    @cached_property
    def plotly(self) -> str:
        """plotly.js, gzipped, in base64: 2 MB that a browser loads when it first opens the lab."""
        return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()

    def progress(self, query: Mapping[str, Any]) -> SweepProgress:
        """Return the progress of {"sweep": its number, or None for the one that the page shows}."""
        return self.sweeps.progress_view(query.get("sweep"))

    def start(self, form: Mapping[str, Any]) -> dict[str, int]:
        return {"sweep": self.sweeps.start(forms.sweep_plan_from(form, self._sets, self._measuring()))}

    def _measuring(self) -> Instruments:
        """Return the rig's instruments; RequestError if nothing can be measured with them."""
        instruments = self._rig.instruments
        if instruments.reason:
            raise RequestError(instruments.reason)
        return instruments

    def control(self, query: Mapping[str, Any]) -> dict[str, int]:
        """Pause, resume or stop a sweep, {"do", "sweep"}, or repeat {"line": one of its curves} as a new one. Return
        {"sweep": its number}."""
        ends = {"pause": "paused", "stop": "stopped"}
        do, stored = str(query.get("do")), self.sweeps.select(query.get("sweep"))
        if stored is None:
            raise RequestError(NO_RESULTS)
        number = stored.number
        if do == "resume":
            self.sweeps.resume(number)
        elif do in ends:
            self.sweeps.end(number, ends[do])
        elif do == "repeat":
            shown = self.sweeps.view(number, concurrent=True).stored or stored
            number = self.sweeps.start(forms.repeated_plan(shown.plan, str(query.get("line")), self._measuring()))
        else:
            raise RequestError(f"A sweep cannot {do[:20]!r}; it can pause, resume, stop, repeat.")
        return {"sweep": number}

    def delete(self, query: Mapping[str, Any]) -> dict[str, int]:
        """Delete a sweep and its results: {"sweep"}."""
        number = query.get("sweep")
        if not isinstance(number, int):
            raise RequestError("No measurement was named, so none is deleted.")
        if is_recorded(number):
            raise RequestError("The recorded measurement belongs to the page; only those made here can be deleted.")
        self.sweeps.delete(number)
        return {}

    def prompts(self, upload: Mapping[str, Any]) -> dict[str, str | list[forms.PromptSet]]:
        """Add a prompt file. Return {"chosen": its set, "sets": all sets}."""
        chosen = self._sets.add(upload)
        return {"chosen": chosen, "sets": self._sets.view()}

    def curves(self, query: Mapping[str, Any]) -> LabCurves:
        """Return curves, table and the cost of a pass for {"sweep", "concurrency", "category", "what_if": a run's id,
        "line": which of its curves}. Predictions hold for one request on the loaded rig, and are left out for another
        rig's sweep."""
        view, run, requested = self.sweeps.view(query.get("sweep")), query.get("what_if"), query.get("concurrency")
        stored, measured, summary = view.stored, view.measured, view.summary
        categories = stored.plan.categories if stored else []
        category = str(query.get("category")) if query.get("category") in categories else ""
        counts = summary.counts
        concurrency = requested if requested in counts else min(counts, default=1)
        kinds = {}
        if stored and len(categories) > 1:
            groups = by_category(stored.plan, measured)
            summaries = {name: summarise(stored.plan.settings, group) for name, group in groups.items()}
            kinds = {name: row_view(best, fastest=True) for name, of_kind in summaries.items()
                     if (best := of_kind.at(concurrency).best)}
            measured, summary = groups.get(category, measured), summaries.get(category, summary)
        summary, can_predict = summary.at(concurrency), concurrency == 1 and not view.other_rig
        forecast = self.forecast(run)
        plain = next((row.total.median for row in summary.rows if row.setting == row.setting.baseline), 0.0)
        withheld = str(self._speed_of(str(run)).get("withheld", "")) if forecast else ""
        predicted, points = prediction.predicted_curves(forecast, str(query.get("line")), plain, withheld)
        cost = forecast.cost if forecast and can_predict and not view.recorded else None
        return {"curves": {**curves_view(summary, points if can_predict else []), "predicted": predicted},
                "cost": prediction.cost_view(forecast, predicted["line"]),
                "table": table_view(summary, modelled_break_evens(measured, cost)) if stored else None,
                "counts": list(counts), "concurrency": concurrency,
                "categories": categories, "category": category, "kinds": kinds,
                "command": run_command(stored.plan, summary.best.setting) if stored and summary.best else "",
                "seconds_per_run": None if view.other_rig or view.recorded else seconds_per_run(view.measured)}

    def concurrency(self, query: Mapping[str, Any]) -> LabConcurrency:
        """Return the figures of concurrent requests for {"sweep", "concurrency", "line": a method}. If the shipped
        sweep is of single requests, "recorded" names the one shown instead."""
        view, concurrency = self.sweeps.view(query.get("sweep"), concurrent=True), query.get("concurrency")
        figures = concurrency_view(
            view.summary, view.stored.plan.settings if view.stored else (), line=str(query.get("line")),
            concurrency=concurrency if isinstance(concurrency, int) else 1)
        return {**figures, "recorded": view.recorded}

    def acceptance(self, query: Mapping[str, Any]) -> AcceptanceView:
        """Return figures of the rounds of {"run"}, or of {"sweep", "nodes", "line": a curve}."""
        if "run" in query:
            return run_view(self._trace_of(str(query["run"])))
        view = self.sweeps.view(query.get("sweep"))
        if view.stored is None:
            raise RequestError(NO_RESULTS)
        return acceptance_view(rounds_at(view.measured, str(query.get("nodes")), str(query.get("line"))))

    def predict_on_machine(self, query: Mapping[str, Any]) -> prediction.MachinePrediction:
        """Predict {"run"} on another machine, {"model", "device"}; return figures and flags to paste."""
        forecast = self.forecast(query.get("run"))
        return prediction.machine_prediction(self._trace_of(str(query.get("run"))), forecast.cost if forecast else None,
                                             str(query.get("model")), str(query.get("device")))

    def report(self, query: Mapping[str, Any]) -> bytes:
        """Return {"sweep"} as a file of {"kind"}, html, csv or runs: JSON with "name", "media" and "data" in base64."""
        return saved(str(query.get("kind")), self.sweeps.view(query.get("sweep"))).as_json()

    def what_if(self, query: Mapping[str, Any]) -> StartedJob:
        """Start a job that predicts every setting from {"run"}."""
        name = str(query.get("run"))
        trace = self._trace_of(name)

        def work(job: Job) -> PredictionResult:
            forecast = self.forecast(name)
            if forecast is None:
                job.message = "Measuring what a pass costs, then replaying the text …"
                forecast = self._rig.instruments.what_if(trace, Progress(job.report))
                self._predictions[self._key(name)] = forecast
            return {"what_if": name, "departures": forecast.departures}
        return {"job": self._jobs.start(work)}

    def forecast(self, run: object) -> WhatIf | None:
        """Return the prediction from that run on the loaded rig, if it was made."""
        return self._predictions.get(self._key(run))

    def _key(self, run: object) -> tuple[str, str]:
        return self._rig.instruments.laboratory.conditions.rig, str(run)

    def race(self, form: Mapping[str, Any]) -> StartedJob:
        plan = forms.race_plan_from(form, self._rig.instruments)
        return {"job": self._jobs.start(lambda job: race.run(self._rig.instruments.laboratory, plan, job))}

    def doctor(self, _: Mapping[str, Any]) -> StartedJob:
        def work(job: Job) -> dict[str, list[DoctorFinding]]:
            job.message = "Running every drafter as configured, and with each common mistake in its configuration …"
            findings = self._rig.instruments.doctor(Progress(job.report))
            return {"findings": worst_first(findings)}
        return {"job": self._jobs.start(work)}

    def server_counters(self, _: Mapping[str, Any]) -> CountersView:
        """Return the attached server's counters over time."""
        server = self._server()
        if self._counters is None or self._counters.server is not server:
            self._counters = CounterHistory(server)
        return counters_view(self._counters)

    def server_concurrency(self, query: Mapping[str, Any]) -> StartedJob:
        """Start a job that measures the attached server's speed by concurrency over the prompts of {"set"}."""
        server = self._server()
        prompts = [prompt.text for prompt in self._sets.named(str(query.get("set")))[:MAX_SERVER_PROMPTS]]
        return {"job": self._jobs.start(lambda job: measure_concurrency(server, prompts, job))}

    def _server(self) -> Server:
        server = server_of(self._rig.source)
        if server is None:
            raise RequestError("No server is attached now; choose one as the rig first.")
        return server


def lab_component(lab: Lab, template: str) -> gr.HTML:
    """Return the lab as a component of the page. Its event ``adopt`` carries a setting for the controls."""
    return gr.HTML(
        elem_id="canopy-lab", html_template=template, padding=False, apply_default_css=False,
        server_functions=as_json_calls(lab.functions()),
        js_on_load="Canopy.lab.open(element, server, (setting) => trigger('adopt', setting));")
