"""The lab over the scripted rig: a small sweep's form, services, jobs, and what they save."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import RequestError
from engine.trace import Trace
from explorer.lab.service import LabService
from explorer.run_queue import RunQueue
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering
from tests.running import until

FORM = {"methods": ["autoregressive", "ddtree", "joint"], "budgets": [8, 32, 16], "set": "math", "prompts": "2",
        "repeats": 1, "temperature": 0, "max_tokens": 64, "split": "total"}


def no_trace(run: str) -> Trace:
    raise RequestError(f"There is no run {run!r}.")


def lab_at(folder: Path, pause_seconds: float = 0.0, queue: RunQueue | None = None) -> LabService:
    return LabService(answering(None, ScriptedInstruments(pause_seconds)), no_trace, queue or RunQueue(),
                      folder / "results.sqlite")


def state(lab: LabService) -> str:
    return str(lab.progress({})["state"])


def measure(lab: LabService, form: Mapping[str, Any] = FORM) -> int:
    """A sweep of that form, to its end; its number."""
    number = int(lab.start(form)["sweep"])
    until(lambda: lab.progress({"sweep": number})["state"] == "done")
    return number


def measured(folder: Path, form: Mapping[str, Any] = FORM) -> LabService:
    """A lab in which that was measured."""
    lab = lab_at(folder)
    measure(lab, form)
    return lab


def saved(lab: LabService, kind: str) -> bytes:
    return base64.b64decode(json.loads(lab.report({"sweep": None, "kind": kind}))["data"])


def lab_of_a_run(instruments: ScriptedInstruments | None = None, folder: Path = Path("nowhere")) -> LabService:
    """A lab that knows one run."""
    return LabService(answering(None, instruments or ScriptedInstruments()), lambda run: scripted_trace("joint", 32),
                      RunQueue(), folder / "results.sqlite")


def ended(lab: LabService, begun: Mapping[str, Any]) -> Any:
    until(lambda: lab._jobs.look(begun)["state"] in ("done", "error", "stopped"))
    return lab._jobs.look(begun)
