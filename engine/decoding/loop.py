"""The decode loop, for one request or for several that share forward passes. Torch-free.

    draft ─► build ─► combine ─► cut ─► pack ─► verify ─► accept ─► keep ─► observe

A round is one forward pass of the target, whatever the number of requests; drafters that can draft for several requests
at once do so in one pass too. Each request keeps its own position, sampling, tree and
caches, so it gets the text that it would get alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from engine.decoding.budget_policy import BudgetPolicy, cut_trees
from engine.decoding.methods import Method, split_rule_of
from engine.decoding.protocols import BatchDrafter, Drafter, Features, SelfDrafter, Target, check, trial_draws
from engine.decoding.tree import pack, root_only
from engine.records import STAGES, Acceptance, DraftTree, Lattice, Request, Round, Verification

NO_ROOT = -1  # the root of a text whose prompt has not been read yet


def decode_batch(runs: Iterable[DecodeRun], concurrency: int) -> Generator[tuple[int, Round], None, None]:
    """Yield the rounds of many runs, ``concurrency`` of them at a time, each with the run's number in ``runs``."""
    waiting = deque(enumerate(runs))
    current: dict[int, DecodeRun] = {}
    try:
        while waiting or current:
            while waiting and len(current) < concurrency:
                number, run = waiting.popleft()
                run.open()
                if run.unfinished:
                    current[number] = run
            if current:
                yield from zip(current, step(list(current.values())), strict=True)
            current = {number: run for number, run in current.items() if run.unfinished}
    finally:
        for run in current.values():
            run.close()


def step(runs: Sequence[DecodeRun]) -> list[Round]:
    """Make one round of every run, in one target pass; drafters that can batch draft in one pass too.

    Every round gets the stage times of the whole batch. Finished runs are closed.
    """
    clock = Clock()
    draft(runs)
    clock.lap("draft")
    for run in runs:
        run.build()
    verified = cut_trees([run.policy for run in runs], [run.tree for run in runs])
    for run, tree in zip(runs, verified, strict=True):
        run.tree = tree
    clock.lap("build")
    packed = [pack(run.tree, run.start) for run in runs]
    clock.lap("pack")
    targets = [run.target for run in runs]
    verifications = targets[0].verify_batch(targets, packed)
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
    for run in runs:
        if run.policy.pools_rows:
            run.policy.record_timing(seconds, alone=len(runs) == 1)
    rounds = [run.record(verification, seconds) for run, verification in zip(runs, verifications, strict=True)]
    for run in runs:
        if not run.unfinished:
            run.close()
    return rounds


class DecodeRun:
    """A request in progress: its position, its forks of target and drafters with their caches, and its current round.

    Args:
        target, drafters: forks owned by this run; surplus drafters are ignored.
        policy: sets the budget of each round; by default the whole budget.
        method: overrides the request's method.

    Raises RequestError if target and drafters cannot serve the request.
    """

    drafting: tuple[Drafter, ...]
    budget: int  # of the trees of its round in progress
    drafts: tuple[Lattice, ...]
    candidates: tuple[DraftTree, ...]
    tree: DraftTree
    acceptance: Acceptance

    def __init__(self, request: Request, target: Target, drafters: Sequence[Drafter],
                 policy: BudgetPolicy | None = None, method: Method | None = None) -> None:
        self.method = method or check(request, target, len(drafters))
        self.request, self.target = request, target
        self.drafters = tuple(drafters[:self.method.drafter_count])
        self.policy = policy or BudgetPolicy()
        self.start, self.tokens_left, self.index = len(request.prompt_ids), request.max_tokens, 0
        self.limit = target.positions_for(self.start)
        self.root = NO_ROOT
        self.closed = False
        self.weights = [drafter.weights if isinstance(drafter, BatchDrafter) else drafter for drafter in self.drafters]
        self._split_budget = split_rule_of(self.method, request.split)
        self._random = trial_draws(request.sampling.seed)

    def rounds(self) -> Generator[Round, None, None]:
        """Prefill, then yield each round when its tokens are committed. The consumer sets the pace. Closing the
        generator frees the caches."""
        try:
            self.open()
            while self.unfinished:
                yield step([self])[0]
        except Exception:
            self.close(failed=True)
            raise
        finally:
            self.close()

    def open(self) -> None:
        """Prefill the target and the drafters. Frees the caches at once if that fails or the text is already
        finished."""
        request, drafters = self.request, self.drafters
        prompt_ids = np.asarray(request.prompt_ids, np.int32)
        rows = min(len(prompt_ids) + request.max_tokens, self.limit)
        tree_rows = 1 + sum(self._split_budget(request.budget, len(drafters)))
        try:
            for drafter in drafters:
                drafter.begin(rows)
                if isinstance(drafter, SelfDrafter):
                    drafter.use_target(self.target)
            self.root, features = self.target.prefill(
                request.prompt_ids, rows - len(prompt_ids) + tree_rows, request.sampling)
            for drafter in drafters:
                drafter.observe(prompt_ids, features)
        except BaseException:
            self.close(failed=True)
            raise
        if not self.unfinished:
            self.close()

    @property
    def unfinished(self) -> bool:
        return (self.tokens_left > 0 and self.root not in self.request.stop_ids
                and self.start < self.limit and not self.closed)

    def plan_round(self) -> None:
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
        whole_path = self.method.accept(self.tree, verification, self.target.redraw, self._random)
        self.acceptance = _end_of_text(whole_path, self.tree, self.request, self.tokens_left)
        self.policy.learn(self.tree, self.acceptance)

    def observe(self, features: Features) -> None:
        if self.drafters:
            tokens = self.tree.tokens.take(self.acceptance.keep)
            for drafter in self.drafters:
                drafter.observe(tokens, features)

    def record(self, verification: Verification, seconds: dict[str, float]) -> Round:
        record = Round(self.index, self.start, self.drafts, self.candidates, self.tree, verification, self.acceptance,
                       seconds)
        self.start += len(self.acceptance.keep)
        self.tokens_left -= len(self.acceptance.keep)
        self.root, self.index = self.acceptance.bonus, self.index + 1
        return record

    def close(self, failed: bool = False) -> None:
        """Free the caches; the text ends here, because of an error if the run has ``failed``."""
        if not self.closed:
            self.closed = True
            self.target.release()
            for drafter in self.drafters:
                drafter.release()


def draft(runs: Sequence[DecodeRun]) -> None:
    """Let every run's drafters draft: one pass for all forks of a ``BatchDrafter``, one pass each for the others.
    No lattice is deeper than the positions that its text has left."""
    passes: dict[int, list[tuple[Drafter, DecodeRun]]] = {}
    for run in runs:
        run.plan_round()
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


def _end_of_text(acceptance: Acceptance, tree: DraftTree, request: Request, tokens_left: int) -> Acceptance:
    """End the kept path before a stop token, and at max_tokens: nothing after it reaches text, τ or cache."""
    tokens = tree.tokens.take(acceptance.keep).tolist()
    if len(tokens) <= tokens_left and request.stop_ids.isdisjoint(tokens):
        return acceptance
    length = min([tokens_left, *(index for index, token in enumerate(tokens) if token in request.stop_ids)])
    return replace(acceptance, keep=acceptance.keep[:length], bonus=tokens[length])


class Clock:
    """A stopwatch for the stages of a round. Each stage ends with its result on the host, so no device synchronisation
    is needed."""

    def __init__(self) -> None:
        self._last = perf_counter()
        self._seconds = dict.fromkeys(STAGES, 0.0)

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self._seconds[stage] += now - self._last
        self._last = now

    def seconds(self) -> dict[str, float]:
        """Return the seconds per stage; the time since the last lap counts as ``other``."""
        self.lap("other")
        return self._seconds
