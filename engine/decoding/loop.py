"""The decode loop: rounds that answer a request, or several requests that share their passes. It is torch-free, and the
same for the tests' toy target and the real one.

    draft ─► build ─► combine ─► cut ─► pack ─► verify ─► accept ─► keep ─► observe

A round costs one pass of each drafter and one of the target, for one text or for many. Each text has its own position,
method, budget, sampling, tree and caches, so it is the text that its request would get alone.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from engine.decoding.budget_policy import BudgetAllocator, BudgetPolicy, FixedBudget
from engine.decoding.methods import Method, split_rule_of
from engine.decoding.protocols import (
    BatchDrafter,
    BatchTarget,
    Drafter,
    Features,
    SelfDrafter,
    Target,
    check,
    trial_draws,
)
from engine.decoding.tree import pack, root_only
from engine.records import STAGES, Acceptance, DraftTree, Lattice, PackedTree, Request, Round, Verification

UNREAD = -1  # the root of a text whose prompt has not been read yet


def decode(request: Request, target: Target, drafters: Sequence[Drafter], policy: BudgetPolicy | None = None,
           allocator: BudgetAllocator | None = None) -> Generator[Round, None, None]:
    """The rounds that answer a request, each yielded as soon as its tokens are committed: its consumer decides when the
    next round runs, and closing it frees the caches.

    Without a ``policy`` every round drafts and verifies the whole budget. An ``allocator`` is told what each took.
    Raises RequestError before the first round when the request cannot be served.
    """
    run = RequestRun(request, check(request, target, len(drafters)), target, drafters, policy)

    def rounds() -> Generator[Round, None, None]:
        try:
            run.open()
            while run.goes_on:
                yield step([run], allocator)[0]
        finally:
            run.close()
    return rounds()


def step(runs: Sequence[RequestRun], allocator: BudgetAllocator | None = None) -> list[Round]:
    """Make one round of every run: one pass of the target, and one of each drafter that can draft for several at once.
    The seconds of each stage are those of all runs. An ``allocator`` divides the rows among the runs."""
    clock = Clock()
    draft(runs)
    clock.lap("draft")
    for run in runs:
        run.build()
    cut(runs, allocator)
    clock.lap("build")
    packed = [pack(run.tree, run.start) for run in runs]
    clock.lap("pack")
    verifications = verify(runs, packed)
    clock.lap("verify")
    for run, verification in zip(runs, verifications, strict=True):
        run.accept(verification)
    clock.lap("accept")
    features = [run.target.commit(run.acceptance.keep) for run in runs]
    clock.lap("keep")
    for run, read in zip(runs, features, strict=True):
        run.observe(read)
    clock.lap("draft")
    seconds = clock.seconds()
    if allocator:
        allocator.ended([run.policy for run in runs], seconds)
    return [run.record(verification, seconds) for run, verification in zip(runs, verifications, strict=True)]


class RequestRun:
    """A request that is being answered: how far its text is, the target and drafters that hold its caches, and the tree
    and kept rows of its round in progress."""

    drafting: tuple[Drafter, ...]
    budget: int  # of the trees of its round in progress
    drafts: tuple[Lattice, ...]
    candidates: tuple[DraftTree, ...]
    tree: DraftTree
    acceptance: Acceptance

    def __init__(self, request: Request, method: Method, target: Target, drafters: Sequence[Drafter],
                 policy: BudgetPolicy | None) -> None:
        self.request, self.method, self.target = request, method, target
        self.drafters, self.policy = tuple(drafters[:method.drafter_count]), policy or FixedBudget()
        self.start, self.left, self.index = len(request.prompt_ids), request.max_tokens, 0
        self.limit = target.positions_for(self.start)
        self.root = UNREAD
        self.weights = [drafter.weights if isinstance(drafter, BatchDrafter) else drafter for drafter in self.drafters]
        self._split_budget = split_rule_of(method, request.split)
        self._random = trial_draws(request.sampling.seed)

    def open(self) -> None:
        """Read the prompt."""
        request, drafters = self.request, self.drafters
        prompt_ids = np.asarray(request.prompt_ids, np.int32)
        rows = min(len(prompt_ids) + request.max_tokens, self.limit)
        for drafter in drafters:
            drafter.begin(rows)
            if isinstance(drafter, SelfDrafter):
                drafter.use_target(self.target)
        most = 1 + sum(self._split_budget(request.budget, len(drafters)))
        self.root, features = self.target.prefill(
            request.prompt_ids, rows - len(prompt_ids) + most, request.sampling)
        for drafter in drafters:
            drafter.observe(prompt_ids, features)

    @property
    def goes_on(self) -> bool:
        """Whether its text has a next round."""
        return (self.left > 0 and self.root not in self.request.stop_ids
                and self.start < self.limit)

    def order(self) -> None:
        """Let the budget policy decide which drafters draft in the next round, and for how many nodes."""
        count, self.budget = self.policy.plan(len(self.drafters), self.request.budget)
        self.drafting = self.drafters[:count]

    def build(self) -> None:
        """Build a tree from each drafter's lattice, and combine them to one; without a draft, the root alone."""
        if not self.drafts:
            self.candidates, self.tree = (), root_only(self.root)
            return
        budgets = self._split_budget(self.budget, len(self.drafts))
        self.candidates = tuple([self.method.build(lattice, self.root, budget)
                                 for lattice, budget in zip(self.drafts, budgets, strict=True)])
        self.tree = self.method.combine(self.candidates, self.budget)

    def accept(self, verification: Verification) -> None:
        """Decide what is kept of the verified tree, and let the budget policy learn from it."""
        whole_path = self.method.accept(self.tree, verification, self.target.redraw, self._random)
        self.acceptance = _end_of_text(whole_path, self.tree, self.request, self.left)
        self.policy.learn(self.tree, self.acceptance)

    def observe(self, features: Features) -> None:
        """Tell the drafters what was committed, with the target's features of it."""
        if self.drafters:
            tokens = self.tree.tokens.take(self.acceptance.keep)
            for drafter in self.drafters:
                drafter.observe(tokens, features)

    def record(self, verification: Verification, seconds: dict[str, float]) -> Round:
        """The record of the round, after which the text has grown by it."""
        record = Round(self.index, self.start, self.drafts, self.candidates, self.tree, verification, self.acceptance,
                       seconds)
        self.start += len(self.acceptance.keep)
        self.left -= len(self.acceptance.keep)
        self.root, self.index = self.acceptance.bonus, self.index + 1
        return record

    def close(self) -> None:
        """Free the caches."""
        self.target.release()
        for drafter in self.drafters:
            drafter.release()


def draft(runs: Sequence[RequestRun]) -> None:
    """Let every run's drafters draft: one pass for all forks of a ``BatchDrafter``, one pass each for the others.
    No lattice is deeper than the positions that its text has left."""
    passes: dict[int, list[tuple[Drafter, RequestRun]]] = {}
    for run in runs:
        run.order()
        for drafter, weights in zip(run.drafting, run.weights, strict=False):
            passes.setdefault(id(weights), []).append((drafter, run))
    lattices: dict[int, Lattice] = {}
    for forks in passes.values():
        drafters = [drafter for drafter, _ in forks]
        if len(forks) > 1 and isinstance(drafters[0], BatchDrafter):
            drafted = drafters[0].draft_batch(
                drafters, [run.root for _, run in forks], [max(run.budget, 1) for _, run in forks])
        else:
            drafted = [drafter.draft(run.root, max(run.budget, 1)) for drafter, run in forks]
        lattices.update(zip(map(id, drafters), drafted, strict=True))
    for run in runs:
        deepest = run.limit - run.start - 1
        run.drafts = tuple([lattices[id(drafter)].cut(deepest) for drafter in run.drafting])


def cut(runs: Sequence[RequestRun], allocator: BudgetAllocator | None) -> None:
    """Leave of every run's tree the part that the target verifies."""
    policies, trees = [run.policy for run in runs], [run.tree for run in runs]
    verified = allocator.divide(policies, trees) if allocator else [
        policy.cut(tree) for policy, tree in zip(policies, trees, strict=True)]
    for run, tree in zip(runs, verified, strict=True):
        run.tree = tree


def verify(runs: Sequence[RequestRun], packed: Sequence[PackedTree]) -> list[Verification]:
    """The target's verification of every tree, in one pass if it can."""
    if len(runs) > 1 and isinstance(runs[0].target, BatchTarget):
        return runs[0].target.verify_batch([run.target for run in runs], packed)
    return [run.target.verify(tree) for run, tree in zip(runs, packed, strict=True)]


def _end_of_text(acceptance: Acceptance, tree: DraftTree, request: Request, left: int) -> Acceptance:
    """End the kept path before a stop token, and at max_tokens: nothing after it reaches text, τ or cache."""
    tokens = tree.tokens.take(acceptance.keep).tolist()
    if len(tokens) <= left and request.stop_ids.isdisjoint(tokens):
        return acceptance
    length = min([left, *(index for index, token in enumerate(tokens) if token in request.stop_ids)])
    return replace(acceptance, keep=acceptance.keep[:length], bonus=tokens[length])


class Clock:
    """Where the time of one round goes, without disturbing it. Each of the engine's stages ends when the host has its
    result, so a lap needs no synchronisation: two floats."""

    def __init__(self) -> None:
        self._last = perf_counter()
        self._seconds = dict.fromkeys(STAGES, 0.0)

    def lap(self, stage: str) -> None:
        """Count the time since the last lap to ``stage``."""
        now = perf_counter()
        self._seconds[stage] += now - self._last
        self._last = now

    def seconds(self) -> dict[str, float]:
        """Seconds per stage, ``other`` being the time since the last lap. Ends the clock."""
        self.lap("other")
        return self._seconds


@dataclass(frozen=True)
class BatchRequest:
    """A request with the drafters that serve it, and the policy for its budgets if they are not fixed."""

    request: Request
    drafters: Sequence[Drafter]
    policy: BudgetPolicy | None = None


class RequestBatch:
    """The requests that are being answered, by number, on forks of the target and the drafters. With an ``allocator``,
    the requests that it serves share one total of rows. A request that has ended makes room for the next at the
    following round."""

    def __init__(self, target: Target, allocator: BudgetAllocator | None = None) -> None:
        self._target, self._allocator = target, allocator
        self._runs: dict[int, RequestRun] = {}
        self._admitted = 0

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, number: object) -> bool:
        return number in self._runs

    def admit(self, request: BatchRequest) -> int:
        """Read the prompt of one more request and return its number. RequestError if it cannot be served; the
        others are unaffected."""
        target, drafters = self._target.fork(), [drafter.fork() for drafter in request.drafters]
        method = check(request.request, target, len(drafters))
        run = RequestRun(request.request, method, target, drafters, request.policy)
        try:
            run.open()
        except BaseException:
            run.close()
            raise
        number, self._admitted = self._admitted, self._admitted + 1
        self._runs[number] = run
        self._drop_ended([number])
        return number

    def round(self, only: Collection[int] | None = None) -> list[tuple[int, Round]]:
        """Make one round of every request, or of ``only`` these; each round comes with its request's number. Requests
        that have ended leave the batch."""
        numbers = [number for number in self._runs if only is None or number in only]
        rounds = step([self._runs[number] for number in numbers], self._allocator) if numbers else []
        self._drop_ended(numbers)
        return list(zip(numbers, rounds, strict=True))

    def pools_rows(self, number: int) -> bool:
        """Whether a request that is being answered takes its rows from the allocator's total."""
        run = self._runs.get(number)
        return bool(run and self._allocator and self._allocator.pools_rows(run.policy))

    def drop(self, number: int) -> None:
        """Free the caches of a request; the others go on."""
        run = self._runs.pop(number, None)
        if run:
            run.close()

    def close(self) -> None:
        """Free everything."""
        for number in list(self._runs):
            self.drop(number)

    def _drop_ended(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if not self._runs[number].goes_on:
                self.drop(number)


def decode_batch(requests: Iterable[BatchRequest], target: Target, concurrency: int,
                 allocator: BudgetAllocator | None = None) -> Iterator[tuple[int, Round]]:
    """The rounds of many requests, ``concurrency`` of them at a time; each round comes with its request's number in
    ``requests``, from 0."""
    batch, waiting = RequestBatch(target, allocator), list(requests)[::-1]
    try:
        while batch or waiting:
            while waiting and len(batch) < concurrency:
                batch.admit(waiting.pop())
            yield from batch.round()
    finally:
        batch.close()
