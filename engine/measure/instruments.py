"""A live rig for the page and the lab to measure with. Everything here waits until it has the rig to itself."""

from __future__ import annotations

import gc
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import torch
import transformers

from engine.budget.cost import CostCurve, interpolate
from engine.checkpoints.memory import LoadContext
from engine.lab.findings import DoctorFinding
from engine.lab.reading import Reading, read, read_concurrent
from engine.lab.redraft import BUDGETS
from engine.lab.replay import WhatIf
from engine.lab.settings import Conditions, prompt_set
from engine.lab.sweeping import Progress
from engine.machine.progress import ReportProgress
from engine.machine.threads import OtherWork
from engine.measure.doctor import diagnose
from engine.measure.whatif import text_of_run, what_if
from engine.records import PromptRequest, Round
from engine.requests.admission import Admission
from engine.serving.cost import QUICK
from engine.serving.precision import DTYPES
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import Piece, Trace

MAX_TWIN_BYTES = 256 * 2**20  # a target up to this size may be loaded a second time
USUAL_CONTEXT = 128  # tokens before the middle of a short answer
# of the accepted drafts, the tokens per round that a card says; one shipped prompt in ten has fewer, one in ten more
MIN_ACCEPTED, MAX_LENGTH = 0.3, 1.35
DOCTOR_PROMPTS = ("check", 4)  # a shipped set, and how many of it


class LiveLaboratory:
    """See ``lab.sweeping.Laboratory``. It waits for its turn among all users of the rig."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.methods, self.drafters = rig.methods, tuple(rig.drafters)

    @property
    def conditions(self) -> Conditions:
        versions = {**self.rig.card.revisions, "python": platform.python_version(), "torch": torch.__version__,
                    "transformers": transformers.__version__}
        return Conditions(self.rig.name, self.rig.hardware, self.rig.target.dtype, versions)

    def measure(self, request: PromptRequest) -> Reading:
        with self.rig.interleaved([request]) as (rounds,):
            return read(rounds)

    def measure_concurrent(self, request: PromptRequest, others: Sequence[PromptRequest], concurrency: int) -> Reading:
        """See ``Laboratory``. Requests at ``auto`` share one total of rows, whose costs are measured first."""
        with self.rig.exclusive(f"with {concurrency} requests at once"), torch.inference_mode():
            measured = self.rig.prepare(request)
            measured.choose_policy()  # before the reading, because it may measure for a second
            return read_concurrent(measured, [partial(self.rig.prepare, one) for one in others], concurrency)

    def cost(self, request: PromptRequest) -> CostCurve:
        return self.rig.curve(self.rig.prepare(request).mid_context_length, request.sampling, QUICK)

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        return self.rig.piece_cache.pieces(token_ids)

    def text_pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]:
        return self.rig.piece_cache.text_pieces(token_ids)


def laboratory(name: str, dtype: str) -> LiveLaboratory:
    """Open a rig and return a laboratory on it. RigError says what is missing or does not fit."""
    return LiveLaboratory(load_rig(name, dtype))


class LiveInstruments:
    """See ``explorer.rig.Instruments``."""

    reason = ""

    def __init__(self, rig: Rig) -> None:
        self.source = rig
        self.opened_as, self.precision = rig.opened_as, rig.precision
        self.laboratory = LiveLaboratory(rig)
        self._twin: LiveInstruments | None = None
        self._others = OtherWork()

    @property
    def gains(self) -> Mapping[int, tuple[float, float]]:
        curve = self.source.costs.best_known(USUAL_CONTEXT)
        if curve is None or curve.unusable_reason:
            return {}
        cost, known = curve.monotonic(), sorted(self.source.card.acceptance_lengths.items())
        plain_ms = min(cost.plain_ms, cost.verify_at(1) + cost.overhead_ms)  # other programs only add time
        nodes, lengths = zip(*known, strict=True)
        gains = {}
        for budget in BUDGETS:
            length = interpolate(nodes, lengths, min(budget, nodes[-1]))
            passes = cost.round_ms(budget + 1, budget, 1) / plain_ms
            gains[budget] = (1 + MIN_ACCEPTED * (length - 1)) / passes, MAX_LENGTH * length / passes
        return gains

    def interleaved(self, requests: Sequence[PromptRequest],
                 interrupt: Callable[[], None]) -> AbstractContextManager[Sequence[Iterator[Round]]]:
        return self.source.interleaved(requests, interrupt)

    def missing_processors(self) -> float:
        return self._others.missing()

    def twin(self, interrupt: Callable[[], None]) -> LiveInstruments | None:
        model = self.source.target.model
        if sum(value.nbytes for value in model.parameters()) > MAX_TWIN_BYTES:
            return None
        if self._twin is None:
            other = next(name for name, dtype in DTYPES.items() if dtype != model.dtype)
            context = LoadContext(lambda _message, _share: interrupt())
            self._twin = LiveInstruments(load_rig(self.opened_as, other, context=context))
        return self._twin

    def known_cost(self, trace: Trace) -> CostCurve | None:
        return self.source.costs.best_known(text_of_run(trace).context)

    def measure_cost(self, trace: Trace, interrupt: Callable[[], None], *, again: bool = False) -> None:
        self.source.curve(text_of_run(trace).context, trace.header.request.sampling, QUICK, interrupt, again=again)

    def measure_cost_roughly(self, interrupt: Callable[[], None]) -> None:
        with self.source.exclusive("while the cost of rounds was measured"):
            self.source.costs.measure_roughly(USUAL_CONTEXT, interrupt)

    def what_if(self, trace: Trace, progress: Progress) -> WhatIf:
        text = text_of_run(trace)
        curve = self.source.curve(text.context, trace.header.request.sampling)
        return what_if(self.source, text, curve=curve, progress=progress)

    def doctor(self, progress: Progress) -> Sequence[DoctorFinding]:
        """See ``Instruments``. Only the command line compares dtypes, because that loads the rig a second time."""
        name, count = DOCTOR_PROMPTS
        return diagnose(self.source, [prompt.text for prompt in prompt_set(name, count)], progress=progress)


def open_beside(beside: object, name: str, dtype: str, report: ReportProgress, admission: Admission) -> LiveInstruments:
    """Load a rig whose runs share rounds, admitted with the page's, while another rig may answer. RigError says why it
    cannot be loaded; what was loaded of it is freed."""
    collect()  # the caching allocator then returns what it keeps unused
    context = LoadContext(report)
    if isinstance(beside, Rig):
        context = replace(context, other_rig=beside.name, other_rig_bytes=weight_bytes(beside))
    return LiveInstruments(load_rig(name, dtype, context=context, admission=admission))


def collect() -> None:
    """Return the memory of unreferenced rigs to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def weight_bytes(rig: Rig) -> int:
    """Count the bytes of a rig's weights."""
    drafters = [getattr(drafter, "inside", drafter) for drafter in rig.drafters.values()]
    models = [rig.target.model, *(drafter.model for drafter in drafters if hasattr(drafter, "model"))]
    return sum(value.nbytes for model in models for value in model.parameters())
