"""The driver that measures a rig's settings on prompts, in turns: `bench` and `pace` are views of it.

A setting answers one prompt after another, or all of them with several at a time, whose rounds are then shared and of
which only those with the full number of requests count. Times are engine time without reading prompts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter
from typing import Any, cast

import torch
from torch import nn
from tqdm import tqdm

from engine.budget.auto import AutoBudget, DraftHistory, SharedRows
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import BatchRequest, decode_batch
from engine.drafters.abilities import BlockDrafter
from engine.errors import RequestError
from engine.lab.settings import Cell, Setting, SweepPlan, measuring_order
from engine.lab.statistics import read
from engine.measure.plain import PlainLoop
from engine.records import STAGES, PromptRequest, Round, Sampling
from engine.serving.rig import Rig
from engine.trace import Entry, Line

WARMING_TOKENS = 12  # enough to touch every buffer of a setting once
OFF, ON, PLAIN = "off", "on", "plain"  # ways to run a prompt alone: unrecorded, recorded, by the published loop
SAME, OWN, SHARED = "same", "auto, each its own", "auto, shared"  # ways to run several prompts at a time
AT_A_TIME = (SAME, OWN, SHARED)
MOST_BUSY = 64
# ends by itself when its parent process is gone, however that ended
BUSY = "import os\nbegan = os.getppid()\nprint(flush=True)\nwhile os.getppid() == began: pass"


@dataclass(frozen=True)
class BenchPoint(Setting):
    """A setting to measure, ``beside`` so many busy processes. ``way`` names how it is run."""

    way: str = OFF
    beside: int = 0


@dataclass
class Tally:
    """The sums of one run or of several: ``rounds`` with ``trees``, of which there are several where requests share a
    round, and their drafted ``nodes``; ``rates`` are the tokens per second of each request while it was answered."""

    tokens: int = 0
    rounds: int = 0
    trees: int = 0
    nodes: int = 0
    seconds: float = 0.0
    forward_seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    rates: list[float] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count the runs of another tally too."""
        for name in ("tokens", "rounds", "trees", "nodes", "seconds", "forward_seconds", "rates"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for stage, seconds in other.stages.items():
            self.stages[stage] += seconds

    @property
    def rate(self) -> float:
        """Tokens per second of all requests together."""
        return self.tokens / self.seconds


def measured(live: Rig, plan: SweepPlan) -> Iterator[tuple[Cell, Tally]]:
    """The tally of every cell, in a sweep's order, after each setting has run once to warm up. The cells of settings
    that answer several prompts at a time are those of the first prompt alone. RequestError where a setting cannot be
    run, before anything is measured."""
    shared = any(cast(BenchPoint, point).way in AT_A_TIME for point in plan.settings)
    cells = measuring_order(replace(plan, prompts=plan.prompts[:1]) if shared else plan)
    clock = ForwardClock(live.target.fastest)
    shortest = min(range(len(plan.prompts)), key=lambda place: len(plan.prompts[place].text))
    for point in plan.settings:
        asks = asks_of(plan, Cell(shortest, point))[:point.concurrency]
        run(live, cast(BenchPoint, point), [replace(ask, max_tokens=min(WARMING_TOKENS, ask.max_tokens))
                                            for ask in asks])
    for cell in tqdm(cells, unit="run"):
        point = cast(BenchPoint, cell.setting)
        with busy_processes(point.beside):
            clock.seconds = 0.0
            tally = run(live, point, asks_of(plan, cell))
        tally.forward_seconds = clock.seconds
        yield cell, tally


def asks_of(plan: SweepPlan, cell: Cell) -> list[PromptRequest]:
    """What a cell asks of the rig: one prompt, or all of them. Every repeat has the same draws."""
    alone = cast(BenchPoint, cell.setting).way not in AT_A_TIME
    return [plan.ask(Cell(place, cell.setting)) for place in ([cell.prompt] if alone else range(len(plan.prompts)))]


def run(live: Rig, point: BenchPoint, asks: Sequence[PromptRequest]) -> Tally:
    """Answer the asks the point's way."""
    if point.way in AT_A_TIME:
        return at_a_time(live, point, asks)
    tally = Tally()
    for ask in asks:
        tally.add(plain_loop(live, ask) if point.way == PLAIN else alone(live, ask, point.way == ON))
    return tally


def alone(live: Rig, ask: PromptRequest, recorded: bool) -> Tally:
    """One run; a ``recorded`` one carries text and keeps every line, as the page does, and its statistics are computed
    only when they are shown or written, so not here."""
    if recorded:
        reading = read(_rounds_of(live.run(ask), []))
    else:
        with live.in_turns([ask]) as (rounds,):
            reading = read(rounds)
    return Tally(len(reading.token_ids), reading.rounds, reading.rounds, sum(reading.rows) - reading.rounds,
                 reading.seconds, 0.0, dict(reading.stage_seconds), [reading.tokens_per_second])


def _rounds_of(lines: Iterator[Line], kept: list[Line]) -> Iterator[Round]:
    for line in lines:
        kept.append(line)
        if isinstance(line, Entry):
            yield line.round


def plain_loop(live: Rig, ask: PromptRequest) -> Tally:
    """DDTree the way the paper's reference runs it, on the same weights. Nothing is known of its trees."""
    ((name, drafter),) = live.drafters_for(ask.method, ask.drafters).items()
    if not isinstance(drafter, BlockDrafter):
        raise RequestError(f"The plain loop drafts with a block-diffusion drafter; {name} is not one.")
    request, loop = live.request(ask), PlainLoop(live.target, drafter)
    state = loop.open(request)
    began = perf_counter()
    lengths = [len(tokens) for tokens in loop.rounds(request, state)]
    return Tally(sum(lengths), len(lengths), len(lengths), seconds=perf_counter() - began)


def at_a_time(live: Rig, point: BenchPoint, asks: Sequence[PromptRequest]) -> Tally:
    """Answer all asks, ``point.concurrency`` of them at a time: with the same budget each, each at its own pace, or
    with one total of rows divided among them."""
    history = DraftHistory()
    requests = [live.request(ask) for ask in asks]
    middle = int(median(len(request.prompt_ids) + request.max_tokens // 2 for request in requests))
    curve = live.costs.curve(middle, Sampling()) if point.pace == AUTO else None
    drafters = list(live.drafters_for(point.method, point.drafters).values())
    batch = [BatchRequest(request, drafters, AutoBudget(curve, history) if curve else None) for request in requests]
    with live.exclusive(f"for {point.concurrency} requests at once"), torch.inference_mode():
        allocator = SharedRows() if point.way == SHARED else None
        tally = full_rounds(decode_batch(batch, live.target, point.concurrency, allocator), point.concurrency)
    if not tally.rounds:
        raise RequestError(f"No round had {point.concurrency} requests at work: some of the {len(asks)} prompts are "
                           "answered with nothing; name more prompts than that.")
    return tally


def full_rounds(numbered: Iterable[tuple[int, Round]], concurrency: int) -> Tally:
    """The rounds that so many requests shared, of a run that yields each request's number with its round."""
    tally = Tally()
    by_request: dict[int, tuple[int, float]] = {}  # tokens, and seconds that it was answered
    for step in steps(numbered):
        if len(step) != concurrency:
            continue
        laps = step[0][1].seconds
        seconds = sum(laps.values())
        for number, one in step:
            tokens, spent = by_request.get(number, (0, 0.0))
            by_request[number] = tokens + len(one.acceptance.keep), spent + seconds
        tally.add(Tally(sum(len(one.acceptance.keep) for _, one in step), 1, concurrency,
                        sum(len(one.tree) - 1 for _, one in step), seconds, 0.0, dict(laps)))
    tally.rates = [tokens / seconds for tokens, seconds in by_request.values()]
    return tally


def steps(numbered: Iterable[tuple[int, Round]]) -> Iterator[list[tuple[int, Round]]]:
    """The rounds of many requests, grouped by the step that made them: those of one step share their seconds."""
    step: list[tuple[int, Round]] = []
    for pair in numbered:
        if step and pair[1].seconds is not step[0][1].seconds:
            yield step
            step = []
        step.append(pair)
    if step:
        yield step


class ForwardClock:
    """A module's forward pass, and the seconds spent inside it, summed. On a CPU a call returns when its work is done.

    Hooks would do, but a module with hooks takes a tenth of a percent of a round longer to be called.
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


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep so many processors busy while inside, as a browser, a compiler or other programs would: the processes run
    once it is entered, and have ended once it is left. RequestError for a count out of bounds."""
    if not 0 <= count <= MOST_BUSY:
        raise RequestError(f"The busy processes are {count}; they have to lie between 0 and {MOST_BUSY}.")
    # in a process group of their own, so that a terminal's Ctrl-C reaches only the parent
    begun = [subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, process_group=0)
             for _ in range(count)]
    try:
        for process in begun:
            if process.stdout:
                process.stdout.readline()
        yield
    finally:
        for process in begun:
            process.kill()
        for process in begun:
            process.communicate()
