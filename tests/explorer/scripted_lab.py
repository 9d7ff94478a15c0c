"""The lab over the scripted rig: a small sweep's form, services, jobs, and what they save."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.requests.admission import Admission
from explorer.lab.lab import Lab
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering
from tests.running import until

FORM = {"methods": ["autoregressive", "ddtree", "joint"], "budgets": [8, 32, 16], "set": "math", "prompts": "2",
        "repeats": 1, "temperature": 0, "max_tokens": 64, "split": "total"}


def lab_at(folder: Path = Path("nowhere"), pause_seconds: float = 0.0, queue: Admission | None = None,
           instruments: ScriptedInstruments | None = None) -> Lab:
    """A lab that keeps its results in that folder, and knows one run, whatever it is called."""
    rig = answering(None, instruments or ScriptedInstruments(pause_seconds))
    return Lab(rig, lambda run: scripted_trace("joint", 32), queue or Admission(), folder / "results.sqlite")


def state(lab: Lab) -> str:
    return str(lab.progress({})["state"])


def measure(lab: Lab, form: Mapping[str, Any] = FORM) -> int:
    """A sweep of that form, to its end; its number."""
    number = int(lab.start(form)["sweep"])
    until(lambda: lab.progress({"sweep": number})["state"] == "done")
    return number


def measured(folder: Path, form: Mapping[str, Any] = FORM) -> Lab:
    """A lab in which that was measured."""
    lab = lab_at(folder)
    measure(lab, form)
    return lab


def saved(lab: Lab, kind: str) -> bytes:
    return base64.b64decode(json.loads(lab.report({"sweep": None, "kind": kind}))["data"])


def ended(lab: Lab, begun: Mapping[str, Any]) -> Any:
    until(lambda: lab._jobs.look(begun)["state"] in ("done", "error", "stopped"))
    return lab._jobs.look(begun)
