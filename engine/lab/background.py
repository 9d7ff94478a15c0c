"""Measures a request beside others, with the same number of requests at work in each of its rounds.

The others take turns: one that has ended makes room for the next, whose prompt is read between two rounds. Only rounds
are timed, from the measured request's first to its last, after the prompts of all first requests were read. So there is
no tail with fewer requests, and every round that counts is at full concurrency.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from time import perf_counter
from typing import Protocol, runtime_checkable

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import BudgetAllocator
from engine.decoding.loop import BatchRequest, RequestBatch
from engine.decoding.plan import Target
from engine.errors import RequestError
from engine.lab.settings import BackgroundRequests, Reading
from engine.lab.statistics import reading
from engine.records import PromptRequest, Round


@runtime_checkable
class ConcurrentLaboratory(Protocol):
    """A laboratory that can measure a run beside others."""

    def measure_concurrent(self, ask: PromptRequest, background: BackgroundRequests) -> Reading:
        """``Laboratory.measure`` with ``background.concurrency`` requests at work in each of the run's rounds."""

    def concurrent_cost(self, ask: PromptRequest, requests: int) -> CostCurve:
        """The cost of rounds that so many requests like this one share; measured on first use, then kept."""




def read_concurrent(target: Target, asked: Sequence[BatchRequest], concurrency: int,
                    allocator: BudgetAllocator | None = None) -> Reading:
    """Run the first of ``asked`` to the end beside the others, ``concurrency`` in all, and return its reading.
    RequestError where it cannot be served, or where fewer requests can be at work. With an ``allocator``, those at the
    pace ``auto`` share one total of rows."""
    own_request, *others = asked
    batch, turns = RequestBatch(target, allocator), _OtherRequests(others)
    kept: list[Round] = []
    step_seconds, committed = [], []
    try:
        began = perf_counter()
        measured_number = batch.admit(own_request)
        prefill_seconds = perf_counter() - began
        while measured_number in batch:
            while len(batch) < concurrency:
                turns.admit(batch)
            began = perf_counter()
            rounds = batch.round()
            step_seconds.append(perf_counter() - began)
            kept += [batch_round for number, batch_round in rounds if number == measured_number]
            committed.append(sum(len(batch_round.acceptance.keep) for _, batch_round in rounds))
    finally:
        batch.close()
    if step_seconds:
        step_seconds[0] += prefill_seconds
    return reading(kept, step_seconds, committed)


class _OtherRequests:
    """The other requests, one after another and from the start again. One that cannot be served, or that ends before
    its first round, is passed over."""

    def __init__(self, others: Sequence[BatchRequest]) -> None:
        self._turns: Iterator[BatchRequest] = cycle(others)
        self._count = len(others)

    def admit(self, batch: RequestBatch) -> None:
        """Admit the next request that can be served; RequestError where none of them can."""
        before, refusal = len(batch), ""
        for _ in range(self._count):
            try:
                batch.admit(next(self._turns))
            except RequestError as error:
                refusal = str(error)
            if len(batch) > before:
                return
        raise RequestError(f"No other prompt of the set can stand beside this one. {refusal}".strip())
