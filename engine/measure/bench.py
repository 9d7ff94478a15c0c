"""Measures a rig's settings on prompts, interleaved, for `bench`. Times are engine time without the prefill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, cast

from torch import nn
from tqdm import tqdm

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.errors import RequestError
from engine.lab.reading import read
from engine.lab.settings import Cell, Setting, SweepPlan, measuring_order
from engine.lab.sweeping import WARMING_TOKENS
from engine.measure.published_loop import PublishedLoop
from engine.records import STAGES, PromptRequest
from engine.serving.rig import Answer, Rig


@dataclass(frozen=True)
class BenchSetting(Setting):
    """A setting, whether its rounds are recorded as the page does, and whether the published DDTree loop runs it."""

    recorded: bool = False
    published_loop: bool = False


@dataclass(frozen=True)
class BenchPlan(SweepPlan):
    """A sweep over settings of this class."""

    settings: tuple[BenchSetting, ...]


@dataclass
class Tally:
    """The sums over one or several runs."""

    tokens: int = 0
    rounds: int = 0
    seconds: float = 0.0
    forward_seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def add(self, other: Tally) -> None:
        self.tokens += other.tokens
        self.rounds += other.rounds
        self.seconds += other.seconds
        self.forward_seconds += other.forward_seconds
        for stage, seconds in other.stages.items():
            self.stages[stage] += seconds

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


def measure_cells(rig: Rig, plan: BenchPlan) -> Iterator[tuple[BenchSetting, Cell, Tally]]:
    """Yield the tally of every cell, in a sweep's order, after each setting has run once to warm up. RequestError,
    before anything is measured, if a setting cannot run."""
    clock = ForwardClock(rig.target.fastest)
    shortest = min(range(len(plan.prompts)), key=lambda number: len(plan.prompts[number].text))
    for setting in plan.settings:
        request = plan.request(Cell(shortest, setting))
        measure_run(rig, setting, replace(request, max_tokens=min(WARMING_TOKENS, request.max_tokens)))
    for cell in tqdm(measuring_order(plan), unit="run"):
        setting = cast(BenchSetting, cell.setting)
        clock.seconds = 0.0
        tally = measure_run(rig, setting, plan.request(replace(cell, repeat=0)))  # every repeat has the same draws
        tally.forward_seconds = clock.seconds
        yield setting, cell, tally


def can_run(rig: Rig, setting: BenchSetting) -> bool:
    """Return whether the rig has the setting's method and, for the published loop, a drafter for it."""
    if setting.method not in rig.methods:
        return False
    drafters = rig.drafters_for(setting.method, setting.drafters).values()
    return not setting.published_loop or all(isinstance(drafter, DFlashDrafter) for drafter in drafters)


def measure_run(rig: Rig, setting: BenchSetting, request: PromptRequest) -> Tally:
    """Answer a request in the setting's way, and tally its rounds."""
    if setting.published_loop:
        rounds = published_rounds(rig, request)
        began = perf_counter()
        lengths = [len(tokens) for tokens in rounds]
        return Tally(sum(lengths), len(lengths), perf_counter() - began)
    if setting.recorded:  # with text and every line, as the page does; statistics are computed when they are shown
        reading = read(Answer(rig.run(request)))
    else:
        with rig.interleaved([request]) as (rounds_of_run,):
            reading = read(rounds_of_run)
    return Tally(len(reading.token_ids), reading.rounds, reading.seconds, stages=dict(reading.stage_seconds))


def published_rounds(rig: Rig, request: PromptRequest) -> Iterator[list[int]]:
    """Start the published DDTree loop, which reads the prompt, and return what each of its rounds commits."""
    ((name, drafter),) = rig.drafters_for(request.method, request.drafters).items()
    if not isinstance(drafter, DFlashDrafter):
        raise RequestError(f"The published loop drafts with a block-diffusion drafter; {name} is not one.")
    return PublishedLoop(rig.target, drafter, rig.prepare(request).request).rounds()


class ForwardClock:
    """Sums the seconds inside a target's forward pass. On a CPU a call returns when its work is done.

    A module with hooks would take a tenth of a percent of a round longer.
    """

    def __init__(self, module: nn.Module) -> None:
        self.seconds = 0.0
        self._forward = module.forward
        module.forward = self._timed

    def _timed(self, *inputs: Any) -> Any:
        began = perf_counter()
        output = self._forward(*inputs)
        self.seconds += perf_counter() - began
        return output
