"""The lab's short measurements: what-if and cost from a run, a race on a prompt, an examination of the rig."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.budget.cost import CostCurve
from engine.errors import RequestError
from engine.lab.findings import worst_first
from engine.lab.sweeping import Progress
from engine.lab.whatif import WhatIf
from engine.requests.limits import TRIED_CONCURRENCY
from engine.trace import Trace
from explorer.lab.concurrency import ConcurrencyPrediction
from explorer.lab.cost import cost_figure, gain_figure, priced
from explorer.lab.race import race_plan_from, run
from explorer.rig import AnsweringRig
from explorer.run_queue import Job, Jobs
from explorer.view import View

MOST_FORECASTS = 16  # what-ifs that are remembered; the oldest is forgotten first


class Tools:
    """Each begins a job and returns its id; ``Jobs.look`` gives its progress and its result."""

    def __init__(self, rig: AnsweringRig, trace_of: Callable[[str], Trace], jobs: Jobs) -> None:
        self._rig = rig
        self._trace_of = trace_of
        self._jobs = jobs
        self._forecasts: OrderedDict[str, WhatIf] = OrderedDict()
        self._loads: OrderedDict[str, ConcurrencyPrediction] = OrderedDict()

    def what_if(self, wanted: Mapping[str, Any]) -> View:
        """Predict every setting from a run, {"run"}. The result names the forecast for the curves and the cost."""
        name = str(wanted.get("run"))
        trace = self._trace_of(name)

        def work(job: Job) -> View:
            if self.forecast(name) is None:
                job.message = "Measuring what a pass costs, then replaying the text …"
                self._forecasts[name] = self._rig.instruments.what_if(trace, Progress(job.tell))
            while len(self._forecasts) > MOST_FORECASTS:
                self._forecasts.popitem(last=False)
            return {"what_if": name, "departures": self._forecasts[name].departures,
                    "seconds": self._forecasts[name].seconds}
        return {"job": self._jobs.start(work)}

    def concurrent_cost(self, wanted: Mapping[str, Any]) -> View:
        """Measure what rounds of several requests like that run cost, {"run"}. The result names the prediction for the
        heat map."""
        name = str(wanted.get("run"))
        trace = self._trace_of(name)

        def work(job: Job) -> View:
            instruments, costs = self._rig.instruments, dict[int, CostCurve]()
            for place, count in enumerate(TRIED_CONCURRENCY):
                job.tell(f"Measuring what rounds of {count} at once cost …", place / (len(TRIED_CONCURRENCY) + 1))
                costs[count] = instruments.concurrent_cost(trace, count)
            job.tell("Replaying the text with every method and budget …", len(costs) / (len(TRIED_CONCURRENCY) + 1))
            forecast = self.forecast(name) or instruments.what_if(trace, Progress())
            self._loads[name] = ConcurrencyPrediction(forecast, costs)
            while len(self._loads) > MOST_FORECASTS:
                self._loads.popitem(last=False)
            return {"load": name}
        return {"job": self._jobs.start(work)}

    def concurrency_prediction(self, name: object) -> ConcurrencyPrediction | None:
        """What was predicted from that run for the rig that answers now."""
        prediction = self._loads.get(str(name))
        return prediction if prediction and self._is_of_this_rig(prediction.forecast) else None

    def forecast(self, name: object) -> WhatIf | None:
        """The what-if that was made from that run on the rig that answers now."""
        forecast = self._forecasts.get(str(name))
        return forecast if forecast and self._is_of_this_rig(forecast) else None

    def _is_of_this_rig(self, forecast: WhatIf) -> bool:
        return bool(forecast.rig == self._rig.instruments.laboratory.conditions.rig)

    def cost(self, wanted: Mapping[str, Any]) -> View:
        """The figures of a what-if: {"what_if", "line": of which method and split the gains are}."""
        forecast = self.forecast(wanted.get("what_if"))
        if forecast is None or forecast.cost is None:
            raise RequestError("The cost of a pass has not been measured for this run yet; press Measure the cost.")
        lines = {gain.method if gain.split == "total" else f"{gain.method} {gain.split}": gain
                 for gain in forecast.gains}
        if not lines:
            raise RequestError("No method of this rig drafts, so there is no gain to draw.")
        best = forecast.best
        usual = [line for line, gain in lines.items()
                 if best and (gain.method, gain.split) == (best.method, best.split)]
        line = str(wanted.get("line"))
        chosen = line if line in lines else [*usual, *lines][0]
        about, gain = forecast.cost, lines[chosen]
        pays = 0 if forecast.withheld else priced(forecast, gain, np.asarray(gain.realised))[1]
        return {"cost": cost_figure(about, pays), "withheld": forecast.withheld,
                "gain": gain_figure(forecast, gain), "lines": list(lines), "line": chosen,
                "about": f"Measured on {about.hardware} in {about.dtype} after {about.context} tokens, "
                         f"{about.sampling}, medians of {about.repeats}."}

    def race(self, form: Mapping[str, Any]) -> View:
        """Begin a race; see ``race.race_plan_from``."""
        instruments = self._rig.instruments
        plan = race_plan_from(form, instruments.laboratory, instruments.rig)
        return {"job": self._jobs.start(lambda job: run(self._rig.instruments.laboratory, plan, job))}

    def doctor(self, _: Mapping[str, Any]) -> View:
        """Begin an examination of the rig."""
        def work(job: Job) -> View:
            job.message = "Running every drafter as configured, and with each common mistake in its configuration …"
            return {"findings": [asdict(finding) for finding in worst_first(
                self._rig.instruments.doctor(Progress(job.tell)))]}
        return {"job": self._jobs.start(work)}
