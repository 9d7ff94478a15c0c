"""A live rig as the lab's bench: sweeps, what-ifs and cost curves of the very checkpoints that answer the page.

Everything here needs the rig to itself; the page sees to that by its line.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.lab.cost import CostCurve
from engine.lab.findings import DoctorFinding
from engine.lab.forecast import WhatIf
from engine.lab.prompt_sets import prompt_set
from engine.lab.whatif import BUDGETS
from engine.runtime.doctor import diagnose
from engine.runtime.live import LiveRig
from engine.runtime.measure import LiveLaboratory
from engine.runtime.whatif import written
from engine.trace import Trace

EXAMINED = ("check", 4)  # the prompts of an examination: a shipped set, and how many of it


class LiveBench:
    """See ``explorer.lab_bench.Bench``. ``name`` is what the command line opens the rig by."""

    reason = ""

    def __init__(self, live: LiveRig, name: str) -> None:
        self.rig = name
        self.laboratory = LiveLaboratory(live)
        self._live = live

    def cost(self, trace: Trace) -> CostCurve:
        """See ``explorer.lab_bench.Bench``."""
        return self._live.curve(written(trace).context, trace.header.request.sampling)

    def what_if(self, trace: Trace) -> WhatIf:
        """See ``explorer.lab_bench.Bench``."""
        return self._live.what_if(written(trace), BUDGETS, (), self.cost(trace))

    def doctor(self) -> Sequence[DoctorFinding]:
        """See ``explorer.lab_bench.Bench``. The rig in another dtype is left to the command line: it would have to
        be loaded a second time."""
        name, count = EXAMINED
        return diagnose(self._live.checkpoints, [prompt.text for prompt in prompt_set(name, count)])
