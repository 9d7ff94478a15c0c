"""Several requests answered at once: their rounds share the passes of target and drafters, and nothing else.

Each text has its own position, method, budget, sampling, tree and caches, so it is the text that its request would get
alone. A request that has ended makes room for the next at the following round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.decoding.budget_policy import BudgetAllocator, BudgetPolicy
from engine.decoding.loop import RequestRun, run_of, step
from engine.decoding.plan import Drafter, Target
from engine.records import Request, Round


@dataclass(frozen=True)
class BatchRequest:
    """A request with the drafters that serve it, and the policy for its budgets where they are not fixed."""

    request: Request
    drafters: Sequence[Drafter]
    policy: BudgetPolicy | None = None


class RequestBatch:
    """The requests that are being answered, by number, on forks of the target and the drafters. With an ``allocator``,
    the requests that it serves share one total of rows."""

    def __init__(self, target: Target, allocator: BudgetAllocator | None = None) -> None:
        self._target, self._allocator = target, allocator
        self._runs: dict[int, RequestRun] = {}
        self._admitted = 0

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, number: object) -> bool:
        return number in self._runs

    def admit(self, asked: BatchRequest) -> int:
        """Read the prompt of one more request and return its number. RequestError where it cannot be served; the
        others are unaffected."""
        run = run_of(
            asked.request, self._target.fork(), [drafter.fork() for drafter in asked.drafters], asked.policy)
        try:
            run.open()
        except BaseException:
            run.close()
            raise
        number, self._admitted = self._admitted, self._admitted + 1
        self._runs[number] = run
        self._leave(number)
        return number

    def round(self, only: Collection[int] | None = None) -> list[tuple[int, Round]]:
        """Make one round of every request, or of ``only`` these; each round comes with its request's number. Requests
        that have ended leave the batch."""
        numbers = [number for number in self._runs if only is None or number in only]
        made = step([self._runs[number] for number in numbers], self._allocator) if numbers else []
        for number in numbers:
            self._leave(number)
        return list(zip(numbers, made, strict=True))

    def shares(self, number: int) -> bool:
        """Whether a request that is being answered takes its rows from the allocator's total."""
        run = self._runs.get(number)
        return bool(run and self._allocator and self._allocator.shares(run.work.policy))

    def drop(self, number: int) -> None:
        """Free the caches of a request; the others go on."""
        run = self._runs.pop(number, None)
        if run:
            run.close()

    def close(self) -> None:
        """Free everything."""
        for number in list(self._runs):
            self.drop(number)

    def _leave(self, number: int) -> None:
        if not self._runs[number].goes_on:
            self.drop(number)


def decode_together(asked: Iterable[BatchRequest], target: Target, at_once: int,
                    allocator: BudgetAllocator | None = None) -> Iterator[tuple[int, Round]]:
    """The rounds of many requests, ``at_once`` of them at a time; each round comes with its request's place in
    ``asked``."""
    batch, waiting = RequestBatch(target, allocator), list(asked)[::-1]
    try:
        while batch or waiting:
            while waiting and len(batch) < at_once:
                batch.admit(waiting.pop())
            yield from batch.round()
    finally:
        batch.close()
