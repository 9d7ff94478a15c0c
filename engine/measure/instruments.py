"""The lab's instruments on a live rig: sweeps, what-ifs and cost curves with the very checkpoints that answer the page.

Everything here needs the rig to itself; the page's run queue sees to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from engine.budget.cost import CostCurve
from engine.lab.control import Steps
from engine.lab.findings import DoctorFinding
from engine.lab.forecast import WhatIf
from engine.lab.prompt_sets import prompt_set
from engine.machine.threads import OtherWork
from engine.measure.doctor import diagnose
from engine.measure.laboratory import LiveLaboratory
from engine.measure.whatif import Alternatives, live_what_if, written
from engine.records import Ask, Round
from engine.serving.live import LiveRig
from engine.serving.precision import DTYPES
from engine.serving.rigs import open_rig
from engine.trace import Trace

HELD_TWICE = 256 * 2**20  # bytes: a target up to this size may be loaded a second time
EXAMINED = ("check", 4)  # the doctor's prompts: a shipped set, and how many of it


class LiveInstruments:
    """See ``explorer.rig.Instruments``. ``name`` is the name that the command line opens the rig by."""

    reason = ""

    def __init__(self, live: LiveRig, name: str) -> None:
        self.rig = name
        self.laboratory = LiveLaboratory(live)
        self.precision = live.checkpoints.precision
        self._live = live
        self._twin: LiveInstruments | None = None
        self._others = OtherWork()

    def in_turns(self, asks: Sequence[Ask]) -> AbstractContextManager[Sequence[Iterator[Round]]]:
        """See ``explorer.rig.Instruments``."""
        return self._live.in_turns(asks)

    def missing_processors(self) -> float:
        """See ``explorer.rig.Instruments``."""
        return self._others.missing()

    def twin(self) -> LiveInstruments | None:
        """See ``explorer.rig.Instruments``."""
        model = self._live.checkpoints.target.model
        if sum(value.nbytes for value in model.parameters()) > HELD_TWICE:
            return None
        if self._twin is None:
            other = next(name for name, dtype in DTYPES.items() if dtype != model.dtype)
            self._twin = LiveInstruments(LiveRig(open_rig(self.rig, other)), self.rig)
        return self._twin

    def cost(self, trace: Trace) -> CostCurve:
        """See ``explorer.rig.Instruments``."""
        return self._live.curve(written(trace).context, trace.header.request.sampling)

    def load_cost(self, trace: Trace, requests: int) -> CostCurve:
        """The cost curve of rounds that so many requests like it share."""
        return self._live.load_curve(written(trace).context, trace.header.request.sampling, requests)

    def what_if(self, trace: Trace, steps: Steps) -> WhatIf:
        """See ``explorer.rig.Instruments``."""
        return live_what_if(self._live, written(trace), Alternatives(curve=self.cost(trace)), steps)

    def doctor(self, steps: Steps) -> Sequence[DoctorFinding]:
        """See ``explorer.rig.Instruments``. Only the command line compares dtypes, which needs the rig loaded a second
        time."""
        name, count = EXAMINED
        return diagnose(self._live.checkpoints, [prompt.text for prompt in prompt_set(name, count)], steps=steps)
