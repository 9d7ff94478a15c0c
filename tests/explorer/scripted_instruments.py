"""Instruments over the scripted source: sweeps need no model, and their results can be predicted."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Event

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import AUTO, FIXED, MAX_AUTO_NODES
from engine.decoding.methods import METHODS
from engine.lab.findings import FINE, WRONG, DoctorFinding
from engine.lab.reading import Reading, reading_of
from engine.lab.replay import Forecast, Gain, WhatIf
from engine.lab.settings import Conditions, Setting
from engine.lab.sweeping import Progress
from engine.records import Precision, PromptRequest, Round
from engine.trace import Entry, Line, Piece, Trace, trace_from_lines
from explorer.rig import Source
from tests.explorer.scripted import CURVE, ScriptedSource

METHODS_MEASURED = ("autoregressive", "dflash", "ddtree", "merged", "joint", "nanogpt_ratio")


def fixed_reading(trace: Trace) -> Reading:
    reading = reading_of(trace)
    return replace(reading, round_seconds=tuple(0.01 + 0.00004 * rows for rows in reading.rows))


@lru_cache(maxsize=256)
def scripted_reading(ask: PromptRequest) -> Reading:
    return fixed_reading(trace_from_lines(ScriptedSource().run(ask)))


@dataclass
class ScriptedLaboratory:
    """Run the script; a round takes ``ScriptedSource.pause_seconds`` of real time and a fixed measured time."""

    pause_seconds: float = 0.0
    conditions: Conditions = Conditions("scripted rig", "no hardware", "float32", {"script": "1"})
    methods: tuple[str, ...] = METHODS_MEASURED
    drafters: tuple[str, ...] = ("math", "code")
    asked: list[PromptRequest] = field(default_factory=list)

    def measure(self, ask: PromptRequest) -> Reading:
        self.asked.append(ask)
        if self.pause_seconds == 0:
            return scripted_reading(ask)
        return fixed_reading(trace_from_lines(ScriptedSource(self.pause_seconds).run(ask)))

    def measure_concurrent(self, ask: PromptRequest, others: Sequence[PromptRequest], concurrency: int) -> Reading:
        """Slow the rounds for each further request; every request commits as many tokens as this one."""
        reading = self.measure(ask)
        slower = 1 + 0.02 * (concurrency - 1) * (10 + ask.budget) ** 0.5
        return replace(reading, round_seconds=tuple(slower * spent for spent in reading.round_seconds),
                       committed=tuple(concurrency * length for length in reading.lengths))

    def pieces(self, token_ids: Sequence[int]) -> Mapping[int, Piece]:
        named = ScriptedSource().script.pieces
        return {token: named[token] for token in token_ids}

    def text_pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]:
        return list(map(ScriptedSource().script.pieces.__getitem__, token_ids))


class ScriptedInstruments:
    """Implement ``explorer.rig.Instruments`` over the script."""

    reason = ""
    doctor_seconds = cost_seconds = 0.0
    cost = CURVE
    other: "ScriptedInstruments | None" = None  # the rig in the other precision
    missing = 0.0  # processors
    precision = Precision("float32")

    def __init__(self, pause_seconds: float = 0.0, source: Source | None = None, opened_as: str = "scripted") -> None:
        self.laboratory = ScriptedLaboratory(pause_seconds)
        self.source = source or ScriptedSource(pause_seconds)
        self.opened_as = opened_as
        self._again = ScriptedSource(pause_seconds)
        self.measuring_cost = Event()

    @contextmanager
    def interleaved(self, asks: Sequence[PromptRequest], interrupt: Callable[[], None]) -> Iterator[
            list[Iterator[Round]]]:
        def interruptible(rounds: Iterator[Round]) -> Iterator[Round]:
            for round_ in rounds:
                interrupt()
                yield round_

        with ExitStack() as opened:
            yield [interruptible(self.rounds(opened.enter_context(closing(self._again.run(ask))))) for ask in asks]

    def rounds(self, lines: Iterator[Line]) -> Iterator[Round]:
        """Yield the rounds of one request; a test may override this to change them."""
        return (line.round for line in lines if isinstance(line, Entry))

    def missing_processors(self) -> float:
        return self.missing

    def twin(self, interrupt: Callable[[], None]) -> "ScriptedInstruments | None":
        return self.other

    def known_cost(self, trace: Trace) -> CostCurve | None:
        return self.cost

    gains: Mapping[int, tuple[float, float]] = {}

    def measure_cost_roughly(self, interrupt: Callable[[], None]) -> None: ...

    def measure_cost(self, trace: Trace, interrupt: Callable[[], None], *, again: bool = False) -> None:
        """Wait ``cost_seconds``; if measured ``again``, set the script's own curve."""
        self.measuring_cost.set()
        self.cost = CURVE if again else self.cost
        until = time.monotonic() + self.cost_seconds
        while time.monotonic() < until:
            interrupt()
            time.sleep(0.005)

    def what_if(self, trace: Trace, progress: Progress) -> WhatIf:
        header, forecasts, curve = trace.header, [], self.cost
        for method in ("ddtree", "joint"):
            for budget, pace in ((0, FIXED), (8, FIXED), (32, FIXED), (128, FIXED), (MAX_AUTO_NODES, AUTO)):
                reading = scripted_reading(PromptRequest(header.prompt, method=method, budget=budget, pace=pace))
                cost = sum(curve.round_ms(rows, budget, METHODS[method].drafter_count, 0.2) for rows in reading.rows)
                setting = Setting(method, budget, pace=pace, temperature=header.request.sampling.temperature)
                forecasts.append(Forecast(setting, reading.lengths, reading.rows, 0.2, cost))
        gains = tuple(Gain(Setting(method), tuple(0.8**node for node in range(1, 65)),
                           tuple(0.7**node for node in range(1, 65))) for method in ("ddtree", "joint"))
        return WhatIf(header.prompt, header.rig, header.hardware, header.dtype, header.request.sampling,
                      len(header.request.prompt_ids), sum(forecasts[0].lengths), 0, tuple(forecasts), gains,
                      curve, 0.01)

    def doctor(self, progress: Progress) -> Sequence[DoctorFinding]:
        progress.expect(40)
        for step in range(40):
            progress.begin(f"Step {step + 1}.")
            time.sleep(self.doctor_seconds / 40)
        return (DoctorFinding("mask token", "story", WRONG, "The mask token is 7, and training used 3.",
                              "Write mask_token_id = 3 into the drafter's config."),
                DoctorFinding("rope", "story", FINE, "Positions agree to 0.0001."))
