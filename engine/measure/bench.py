"""Measures a rig's settings on prompts, interleaved, for `bench`.

A setting answers one prompt after another, or several at a time in shared rounds; then only rounds with the full number
of requests count. Times are engine time without the prefill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import median
from time import perf_counter
from typing import Any, cast

import torch
from torch import nn
from tqdm import tqdm

from engine.budget.auto import AutoBudget, DraftHistory
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import DecodeRun, decode_batch
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.errors import RequestError
from engine.lab.reading import read
from engine.lab.settings import Cell, Setting, SweepPlan, measuring_order
from engine.measure.published_loop import PublishedLoop
from engine.records import STAGES, PromptRequest, Round, Sampling
from engine.serving.rig import Answer, Rig

WARMING_TOKENS = 12  # enough to touch every buffer of a setting once
OFF, ON = "off", "on"  # ways to run a prompt alone: unrecorded, recorded,
PUBLISHED_LOOP = "plain"  # by the published DDTree loop
SAME, LONE, SHARED = "same", "auto, each its own", "auto, shared"  # ways to run several prompts at a time
CONCURRENT = (SAME, LONE, SHARED)
PUBLISHED_METHOD = "ddtree"  # the method that the published loop runs


@dataclass(frozen=True)
class BenchPoint(Setting):
    """A setting, and the ``way`` in which it is run."""

    way: str = OFF


@dataclass(frozen=True)
class BenchPlan(SweepPlan):
    """A sweep over settings of this class."""

    settings: tuple[BenchPoint, ...]


@dataclass
class Tally:
    """The sums of one or several runs. ``rounds`` with ``trees`` (several if requests share a round) and their drafted
    ``nodes``; ``rates``: tokens per second of each request while it was answered."""

    tokens: int = 0
    rounds: int = 0
    trees: int = 0
    nodes: int = 0
    seconds: float = 0.0
    forward_seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    rates: list[float] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("tokens", "rounds", "trees", "nodes", "seconds", "forward_seconds", "rates"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for stage, seconds in other.stages.items():
            self.stages[stage] += seconds

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


def measure_cells(rig: Rig, plan: BenchPlan) -> Iterator[tuple[BenchPoint, Cell, Tally]]:
    """Yield the tally of every cell, in a sweep's order, after each setting has run once to warm up.

    Concurrent settings have one cell per repeat, for all prompts. RequestError, before anything is measured, if a
    setting cannot run.
    """
    shared = any(point.way in CONCURRENT for point in plan.settings)
    cells = measuring_order(replace(plan, prompts=plan.prompts[:1]) if shared else plan)
    clock = ForwardClock(rig.target.fastest)
    shortest = min(range(len(plan.prompts)), key=lambda number: len(plan.prompts[number].text))
    for point in plan.settings:
        requests = requests_of(plan, point, shortest)[:point.concurrency]
        run(rig, point, [replace(request, max_tokens=min(WARMING_TOKENS, request.max_tokens)) for request in requests])
    for cell in tqdm(cells, unit="run"):
        point = cast(BenchPoint, cell.setting)
        clock.seconds = 0.0
        tally = run(rig, point, requests_of(plan, point, cell.prompt))
        tally.forward_seconds = clock.seconds
        yield point, cell, tally


def requests_of(plan: BenchPlan, point: BenchPoint, prompt: int) -> list[PromptRequest]:
    """Return a cell's requests: of one prompt, or of all. Every repeat has the same draws."""
    prompts = range(len(plan.prompts)) if point.way in CONCURRENT else [prompt]
    return [plan.request(Cell(number, point)) for number in prompts]


def can_run(rig: Rig, point: BenchPoint) -> bool:
    """Return whether the rig serves the point's method and, for the published loop, has a drafter for it."""
    if point.method not in rig.methods:
        return False
    drafters = rig.drafters_for(point.method, point.drafters).values()
    return point.way != PUBLISHED_LOOP or all(isinstance(drafter, DFlashDrafter) for drafter in drafters)


def run(rig: Rig, point: BenchPoint, requests: Sequence[PromptRequest]) -> Tally:
    """Answer the requests in the point's way, and tally their rounds."""
    if point.way in CONCURRENT:
        return run_concurrently(rig, point, requests)
    (request,) = requests
    if point.way == PUBLISHED_LOOP:  # nothing is known of its trees
        plain = published_rounds(rig, request)
        began = perf_counter()
        lengths = [len(tokens) for tokens in plain]
        return Tally(sum(lengths), len(lengths), len(lengths), seconds=perf_counter() - began)
    if point.way == ON:  # with text and every line, as the page does; statistics wait until they are shown
        reading = read(Answer(rig.run(request)))
    else:
        with rig.interleaved([request]) as (rounds,):
            reading = read(rounds)
    return Tally(len(reading.token_ids), reading.rounds, reading.rounds, sum(reading.rows) - reading.rounds,
                 reading.seconds, 0.0, dict(reading.stage_seconds), [reading.tokens_per_second])


def published_rounds(rig: Rig, request: PromptRequest) -> Iterator[list[int]]:
    """Start the published DDTree loop, which reads the prompt, and return what each of its rounds commits."""
    ((name, drafter),) = rig.drafters_for(request.method, request.drafters).items()
    if not isinstance(drafter, DFlashDrafter):
        raise RequestError(f"The plain loop drafts with a block-diffusion drafter; {name} is not one.")
    return PublishedLoop(rig.target, drafter, rig.prepare(request).request).rounds()


def run_concurrently(rig: Rig, point: BenchPoint, requests: Sequence[PromptRequest]) -> Tally:
    """Answer all requests, ``point.concurrency`` at a time: with equal budgets, each at its own pace, or with one total
    of rows."""
    prepared = [rig.prepare(request) for request in requests]
    middle = int(median(run.middle for run in prepared))
    curve = rig.costs.curve(middle, Sampling()) if point.pace == AUTO else None
    history, pools_rows = DraftHistory(), point.way == SHARED
    runs = [DecodeRun(run.request, run.target, run.drafters, AutoBudget(curve, history, pools_rows) if curve else None)
            for run in prepared]
    with rig.exclusive(f"for {point.concurrency} requests at once"), torch.inference_mode():
        tally = full_rounds(decode_batch(runs, point.concurrency), point.concurrency)
    if not tally.rounds:
        raise RequestError(f"No round had {point.concurrency} requests at work: some of the {len(requests)} prompts "
                           "are answered with nothing; name more prompts than that.")
    return tally


def full_rounds(numbered: Iterable[tuple[int, Round]], concurrency: int) -> Tally:
    """Return the rounds that this many requests shared; the run yields each request's number with its round."""
    tally = Tally()
    tokens, seconds = Counter[int](), dict[int, float]()  # by request, while it was answered
    for _, group in groupby(numbered, key=lambda pair: id(pair[1].seconds)):  # which the rounds of one step share
        step = list(group)
        if len(step) != concurrency:
            continue
        stages = step[0][1].seconds
        spent = sum(stages.values())
        for number, one in step:
            tokens[number] += len(one.acceptance.keep)
            seconds[number] = seconds.get(number, 0.0) + spent
        tally.add(Tally(sum(len(one.acceptance.keep) for _, one in step), 1, concurrency,
                        sum(len(one.tree) - 1 for _, one in step), spent, 0.0, dict(stages)))
    tally.rates = [tokens[number] / spent for number, spent in seconds.items()]
    return tally


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
