"""The lab over the scripted rig: the form of a small sweep, services, jobs and their saved files."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.requests.admission import Admission
from engine.trace import encode_record
from explorer.lab.lab import Lab
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import call_function, current_rig
from tests.running import until

FORM = {"methods": ["autoregressive", "ddtree", "joint"], "budgets": [8, 32, 16], "set": "math", "prompts": "2",
        "repeats": 1, "temperature": 0, "max_tokens": 64, "split": "total"}


class JsonLab:
    """Wrap a lab so that its functions answer in JSON, as the browser receives it."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab

    def __getattr__(self, name: str) -> Any:
        return lambda *query: encode_record(getattr(self.lab, name)(*query))


def lab_at(folder: Path = Path("nowhere"), pause_seconds: float = 0.0, queue: Admission | None = None,
           instruments: ScriptedInstruments | None = None) -> Any:
    """Return a lab that saves results in that folder and knows one run, under every name."""
    rig = current_rig(None, instruments or ScriptedInstruments(pause_seconds))
    return JsonLab(Lab(rig, lambda run: scripted_trace("joint", 32), queue or Admission(), folder / "results.sqlite"))


def state(lab: Any) -> str:
    return str(lab.progress({})["state"])


def measure(lab: Any, form: Mapping[str, Any] = FORM) -> int:
    """Run a sweep of that form to its end; return its number."""
    number = int(lab.start(form)["sweep"])
    until(lambda: lab.progress({"sweep": number})["state"] == "done")
    return number


def measured_lab(folder: Path, form: Mapping[str, Any] = FORM) -> Any:
    """Return a lab that has measured that form."""
    lab = lab_at(folder)
    measure(lab, form)
    return lab


def saved_file(lab: Any, kind: str) -> bytes:
    return base64.b64decode(json.loads(lab.report({"sweep": None, "kind": kind}))["data"])


def poll_job(lab: Any, begun: Mapping[str, Any], **more: Any) -> Any:
    """Return what the page reads of a job."""
    return encode_record(call_function(lab.lab.functions(), "lab_job", **begun, **more))


def wait_for_job(lab: Any, begun: Mapping[str, Any]) -> Any:
    until(lambda: poll_job(lab, begun)["state"] in ("done", "error", "stopped"))
    return poll_job(lab, begun)
