"""A live rig as what the page and the lab measure with: sweeps, what-ifs, cost curves and the doctor, on the very
weights that answer. Everything here needs the rig to itself; the page's run queue sees to that."""

from __future__ import annotations

import gc
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import torch
import transformers

from engine.budget.auto import SharedRows
from engine.budget.cost import CostCurve
from engine.checkpoints.files import Tell
from engine.checkpoints.memory import Opening
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import BatchRequest
from engine.lab.background import read_concurrent
from engine.lab.findings import DoctorFinding
from engine.lab.planning import prompt_set
from engine.lab.settings import BackgroundRequests, Conditions, Reading
from engine.lab.statistics import read
from engine.lab.sweeping import Progress
from engine.lab.whatif import WhatIf
from engine.machine.threads import OtherWork
from engine.measure.doctor import diagnose
from engine.measure.whatif import Alternatives, live_what_if, written
from engine.records import PromptRequest, Round
from engine.serving.chat import TokenTexts
from engine.serving.live import LiveRig, open_rig
from engine.serving.precision import DTYPES
from engine.serving.rigs import Rig, load_rig
from engine.trace import Piece, Trace

HELD_TWICE = 256 * 2**20  # bytes: a target up to this size may be loaded a second time
EXAMINED = ("check", 4)  # the doctor's prompts: a shipped set, and how many of it


class LiveLaboratory:
    """See ``lab.settings.Laboratory``. It takes turns with all other users of ``live``, one run at a time."""

    def __init__(self, live: LiveRig) -> None:
        self.live, self.rig = live, live.loaded

    @property
    def conditions(self) -> Conditions:
        versions = {**self.rig.revisions, "python": platform.python_version(), "torch": torch.__version__,
                    "transformers": transformers.__version__}
        return Conditions(self.rig.name, self.live.hardware, self.rig.dtype, versions)

    @property
    def methods(self) -> Sequence[str]:
        return self.live.methods

    @property
    def drafters(self) -> Sequence[str]:
        return self.live.drafters

    def measure(self, ask: PromptRequest) -> Reading:
        with self.live.rounds(ask) as rounds:
            return read(rounds)

    def measure_concurrent(self, ask: PromptRequest, background: BackgroundRequests) -> Reading:
        """See ``lab.background.ConcurrentLaboratory``. Requests at ``auto`` share one total of rows, whose
        costs are measured first."""
        with self.live.held(f"with {background.concurrency} requests at once"), torch.inference_mode():
            requests = [self._batched(one) for one in (ask, *background.others)]
            return read_concurrent(self.rig.target, requests, background.concurrency, SharedRows())

    def _batched(self, ask: PromptRequest) -> BatchRequest:
        request, drafters = self.live.request(ask), list(self.rig.drafters_for(ask.method, ask.drafters).values())
        adaptive = ask.pace == AUTO and bool(drafters)
        return BatchRequest(request, drafters, self.live.auto_budget(request, drafters) if adaptive else None)

    def concurrent_cost(self, ask: PromptRequest, requests: int) -> CostCurve:
        """The cost of rounds of so many requests like this one, in the middle of its text; a new one takes seconds to
        measure."""
        middle = len(self.live.request(ask).prompt_ids) + ask.max_tokens // 2
        return self.live.curve(middle, ask.sampling, requests)

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        return TokenTexts(self.rig.tokenizer).of(token_ids)


def laboratory(name: str, dtype: str) -> LiveLaboratory:
    """A laboratory on a newly opened rig; RigError says what is missing or does not fit."""
    return LiveLaboratory(open_rig(name, dtype))


class LiveInstruments:
    """See ``explorer.rig.Instruments``. ``name`` is the name that the command line opens the rig by."""

    reason = ""

    def __init__(self, live: LiveRig, name: str) -> None:
        self.source = live
        self.rig = name
        self.laboratory = LiveLaboratory(live)
        self.precision = live.loaded.precision
        self._twin: LiveInstruments | None = None
        self._others = OtherWork()

    def in_turns(self, asks: Sequence[PromptRequest]) -> AbstractContextManager[Sequence[Iterator[Round]]]:
        return self.source.in_turns(asks)

    def missing_processors(self) -> float:
        return self._others.missing()

    def twin(self) -> LiveInstruments | None:
        model = self.source.loaded.target.model
        if sum(value.nbytes for value in model.parameters()) > HELD_TWICE:
            return None
        if self._twin is None:
            other = next(name for name, dtype in DTYPES.items() if dtype != model.dtype)
            self._twin = LiveInstruments(LiveRig(load_rig(self.rig, other)), self.rig)
        return self._twin

    def concurrent_cost(self, trace: Trace, requests: int) -> CostCurve:
        return self.source.curve(written(trace).context, trace.header.request.sampling, requests)

    def known_cost(self, trace: Trace, measuring: bool = False) -> CostCurve | None:
        context, sampling = written(trace).context, trace.header.request.sampling
        return self.source.quick_curve(context, sampling) if measuring else self.source.costs.known(context)

    def what_if(self, trace: Trace, progress: Progress) -> WhatIf:
        return live_what_if(self.source, written(trace), Alternatives(curve=self.concurrent_cost(trace, 1)), progress)

    def doctor(self, progress: Progress) -> Sequence[DoctorFinding]:
        """Only the command line compares dtypes, which needs the rig loaded a second time."""
        name, count = EXAMINED
        return diagnose(self.source.loaded, [prompt.text for prompt in prompt_set(name, count)], progress=progress)


def open_beside(beside: object, name: str, dtype: str, tell: Tell) -> LiveInstruments:
    """A rig whose runs share rounds, loaded while another one may answer; RigError says why it cannot be, and what was
    loaded of it is freed."""
    collect()  # the caching allocator then returns what it keeps unused
    running = beside.loaded if isinstance(beside, LiveRig) else None
    opening = Opening(tell, running.name, held_bytes(running)) if running else Opening(tell)
    return LiveInstruments(LiveRig(load_rig(name, dtype, opening=opening), shares=True), name)


def collect() -> None:
    """Return the memory of rigs without references to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def held_bytes(rig: Rig) -> int:
    """The bytes that the weights of a rig take."""
    drafters = [getattr(drafter, "inside", drafter) for drafter in rig.drafters.values()]
    models = [rig.target.model, *(drafter.model for drafter in drafters if hasattr(drafter, "model"))]
    return sum(value.nbytes for model in models for value in model.parameters())
