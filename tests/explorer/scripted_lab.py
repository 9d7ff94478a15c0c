"""The lab over the scripted rig: a small sweep's form, services, jobs, and what they save."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import RequestError
from engine.trace import Trace
from explorer.lab.service import LabService
from explorer.lab.tools import Tools
from explorer.run_queue import Jobs, RunQueue
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


def saved(lab: LabService, kind: str) -> bytes:
    return base64.b64decode(json.loads(lab.report({"sweep": None, "kind": kind}))["data"])


def tools(queue: RunQueue | None = None, instruments: ScriptedInstruments | None = None) -> Tools:
    return Tools(answering(None, instruments or ScriptedInstruments()),
                 lambda run: scripted_trace("joint", 32), Jobs(queue or RunQueue()))


def ended(made: Tools, begun: Mapping[str, Any]) -> Any:
    until(lambda: made._jobs.look(begun)["state"] in ("done", "error", "stopped"))
    return made._jobs.look(begun)
