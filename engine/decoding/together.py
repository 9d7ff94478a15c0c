"""Several requests answered at once: their rounds share the passes of target and drafters, and nothing else.

Each text has its own position, method, budget, sampling, tree and caches, so it is the text that its request would get
alone. A request that has ended makes room for the next at the following round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.decoding.budget_policy import AUTO, Allotment, BudgetPolicy
from engine.decoding.loop import RequestRun, run_of, step
from engine.decoding.plan import Drafter, Target
from engine.records import Request, Round


@dataclass(frozen=True)
class BatchRequest:
    """A request with the drafters that serve it, and the policy for its budgets where they are not fixed. ``promise``
    is how many tokens per second it is to get at least, where an allotment serves it."""

    request: Request
    drafters: Sequence[Drafter]
    policy: BudgetPolicy | None = None
    promise: float = 0.0


@dataclass(frozen=True)
class MissedPromise:
    """A request that gets fewer tokens per second than it was promised."""

    number: int
    promised: float
    got: float


def missed_promises_sentence(gaps: Sequence[MissedPromise]) -> str:
    """The sentence about promises that are not kept; empty where all are kept."""
    if not gaps:
        return ""
    each = "; ".join(f"request {gap.number} gets {gap.got:.1f} of {gap.promised:.1f} tokens/s" for gap in gaps)
    return f"Not every promise can be kept beside the others: {each}. Promise less, or answer fewer at once."


class RequestBatch:
    """The requests that are being answered, by number, on forks of the target and the drafters. With an ``allotment``,
    requests at the pace ``auto`` that bring no policy of their own share one total of rows."""

    def __init__(self, target: Target, allotment: Allotment | None = None) -> None:
        self._target, self._allotment = target, allotment
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
            asked.request, self._target.fork(), [drafter.fork() for drafter in asked.drafters], self._policy_of(asked))
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
        made = step([self._runs[number] for number in numbers], self._allotment) if numbers else []
        for number in numbers:
            self._leave(number)
        return list(zip(numbers, made, strict=True))

    def missed_promises(self) -> list[MissedPromise]:
        """The requests that have had less than they were promised so far."""
        if self._allotment is None:
            return []
        rates = {number: self._allotment.got(run.work.policy) for number, run in self._runs.items()}
        return [MissedPromise(number, promised, got) for number, (promised, got) in rates.items() if got < promised]

    def shares(self, number: int) -> bool:
        """Whether a request that is being answered takes its rows from the allotment's total."""
        run = self._runs.get(number)
        return bool(run and self._allotment and self._allotment.shares(run.work.policy))

    def drop(self, number: int) -> None:
        """Free the caches of a request; the others go on."""
        run = self._runs.pop(number, None)
        if run:
            run.close()

    def close(self) -> None:
        """Free everything."""
        for number in list(self._runs):
            self.drop(number)

    def _policy_of(self, asked: BatchRequest) -> BudgetPolicy | None:
        if asked.policy or asked.request.pace != AUTO or self._allotment is None:
            return asked.policy
        return self._allotment.policy(asked.promise)

    def _leave(self, number: int) -> None:
        if not self._runs[number].goes_on:
            self.drop(number)


def decode_together(asked: Iterable[BatchRequest], target: Target, at_once: int,
                    allotment: Allotment | None = None) -> Iterator[tuple[int, Round]]:
    """The rounds of many requests, ``at_once`` of them at a time; each round comes with its request's place in
    ``asked``."""
    batch, waiting = RequestBatch(target, allotment), list(asked)[::-1]
    try:
        while batch or waiting:
            while waiting and len(batch) < at_once:
                batch.admit(waiting.pop())
            yield from batch.round()
    finally:
        batch.close()
