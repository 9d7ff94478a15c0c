"""The lab over the scripted rig: a small sweep's form, services, jobs, and what they save."""

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
from tests.explorer.scripted_rigs import answering, called
from tests.running import until

FORM = {"methods": ["autoregressive", "ddtree", "joint"], "budgets": [8, 32, 16], "set": "math", "prompts": "2",
        "repeats": 1, "temperature": 0, "max_tokens": 64, "split": "total"}


class Answering:
    """A lab whose functions answer as the browser reads it: in JSON."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab

    def __getattr__(self, name: str) -> Any:
        return lambda *query: encode_record(getattr(self.lab, name)(*query))


def lab_at(folder: Path = Path("nowhere"), pause_seconds: float = 0.0, queue: Admission | None = None,
           instruments: ScriptedInstruments | None = None) -> Any:
    """A lab that keeps its results in that folder, and knows one run, whatever it is called."""
    rig = answering(None, instruments or ScriptedInstruments(pause_seconds))
    return Answering(Lab(rig, lambda run: scripted_trace("joint", 32), queue or Admission(), folder / "results.sqlite"))


def state(lab: Any) -> str:
    return str(lab.progress({})["state"])


def measure(lab: Any, form: Mapping[str, Any] = FORM) -> int:
    """A sweep of that form, to its end; its number."""
    number = int(lab.start(form)["sweep"])
    until(lambda: lab.progress({"sweep": number})["state"] == "done")
    return number


def measured(folder: Path, form: Mapping[str, Any] = FORM) -> Any:
    """A lab in which that was measured."""
    lab = lab_at(folder)
    measure(lab, form)
    return lab


def saved(lab: Any, kind: str) -> bytes:
    return base64.b64decode(json.loads(lab.report({"sweep": None, "kind": kind}))["data"])


def polled(lab: Any, begun: Mapping[str, Any], **more: Any) -> Any:
    """What the page reads of a job."""
    return encode_record(called(lab.lab.functions(), "lab_job", **begun, **more))


def ended(lab: Any, begun: Mapping[str, Any]) -> Any:
    until(lambda: polled(lab, begun)["state"] in ("done", "error", "stopped"))
    return polled(lab, begun)
