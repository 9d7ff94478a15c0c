"""The decode loop: rounds that answer a request, or several requests that share their passes. It is torch-free, and the
same for the tests' toy target and the real one.

    draft ─► build ─► combine ─► pack ─► verify ─► accept ─► keep ─► observe

A round costs one pass of each drafter and one of the target, for one text or for many. The loop is an iterator: its
consumer decides when the next round runs, and closing it frees the caches.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from engine.decoding.budget_policy import BudgetAllocator, BudgetPolicy
from engine.decoding.clock import Clock
from engine.decoding.draws import trial_draws
from engine.decoding.plan import Drafter, Features, JointDrafter, JointTarget, Plan, Target, plan
from engine.decoding.tree import pack
from engine.records import Acceptance, DraftTree, Integers, Lattice, PackedTree, Request, Round, Verification

UNREAD = -1  # the root of a text whose prompt has not been read yet


def decode(request: Request, target: Target, drafters: Sequence[Drafter], policy: BudgetPolicy | None = None,
           allocator: BudgetAllocator | None = None) -> Generator[Round, None, None]:
    """The rounds that answer a request, each yielded as soon as its tokens are committed.

    Without a ``policy`` every round drafts and verifies the whole budget. An ``allocator`` is told what each took.
    Raises RequestError before the first round when the request cannot be served.
    """
    return _rounds(run_of(request, target, drafters, policy), allocator)


def run_of(request: Request, target: Target, drafters: Sequence[Drafter],
           policy: BudgetPolicy | None = None) -> RequestRun:
    """A checked request, ready to be answered; RequestError where it cannot be served."""
    work = plan(request, target, drafters)
    return RequestRun(replace(work, policy=policy) if policy else work, target)


def _rounds(run: RequestRun, allocator: BudgetAllocator | None) -> Generator[Round, None, None]:
    try:
        run.open()
        while run.goes_on:
            yield step([run], allocator)[0]
    finally:
        run.close()


class RequestRun:
    """A request that is being answered: how far its text is, and the target and drafters that hold its caches."""

    def __init__(self, work: Plan, target: Target) -> None:
        self.work, self.target = work, target
        self.start, self.left, self.index = len(work.request.prompt_ids), work.request.max_tokens, 0
        self.root = UNREAD
        self._random = trial_draws(work.request.sampling.seed)

    def open(self) -> None:
        """Read the prompt."""
        request, drafters, limit = self.work.request, self.work.drafters, self.target.context_limit
        prompt_ids = np.asarray(request.prompt_ids, np.int32)
        rows = min(len(prompt_ids) + request.max_tokens, limit)
        for drafter in drafters:
            drafter.begin(rows)
        most = 1 + sum(self.work.share(request.budget, len(drafters)))
        self.root, features = self.target.prefill(
            request.prompt_ids, rows - len(prompt_ids) + most, request.sampling)
        for drafter in drafters:
            drafter.observe(prompt_ids, features)

    @property
    def goes_on(self) -> bool:
        """Whether its text has a next round."""
        return (self.left > 0 and self.root not in self.work.request.stop_ids
                and self.start < self.target.context_limit)

    def opened(self) -> DraftOrder:
        """What its next round is to draft, decided by its budget policy."""
        drafting, budget = self.work.policy.opens(len(self.work.drafters), self.work.request.budget)
        return DraftOrder(self.work.drafters[:drafting], self.root, budget, self.target.context_limit - self.start - 1)

    def built(self, opened: DraftOrder, drafts: tuple[Lattice, ...]) -> RoundTrees:
        """The trees built from what was drafted."""
        if not drafts:
            return RoundTrees(drafts, (), bare(self.root))
        work, shares = self.work, self.work.share(opened.budget, len(drafts))
        candidates = tuple([work.build(draft, self.root, share) for draft, share in zip(drafts, shares, strict=True)])
        return RoundTrees(drafts, candidates, work.combine(candidates, opened.budget))

    def accepted(self, tree: DraftTree, said: Verification) -> Acceptance:
        """What the target keeps of the verified tree."""
        work = self.work
        kept = work.accept(tree, said, self.target, self._random)
        acceptance = _end_of_text(kept, tree, work.request, self.left)
        work.policy.learn(tree, acceptance)
        return acceptance

    def observe(self, tree: DraftTree, acceptance: Acceptance, features: Features) -> None:
        """Tell the drafters what was committed."""
        if self.work.drafters:
            tokens = tree.tokens.take(acceptance.keep)
            for drafter in self.work.drafters:
                drafter.observe(tokens, features)

    def ended(self, built: RoundTrees, said: Verification, acceptance: Acceptance, seconds: dict[str, float]) -> Round:
        """The record of the round, after which the text has grown by it."""
        made = Round(self.index, self.start, built.drafts, built.candidates, built.tree, said, acceptance, seconds)
        self.start += len(acceptance.keep)
        self.left -= len(acceptance.keep)
        self.root, self.index = acceptance.bonus, self.index + 1
        return made

    def close(self) -> None:
        """Free the caches."""
        self.target.release()
        for drafter in self.work.drafters:
            drafter.release()


class DraftOrder(NamedTuple):
    """What a round drafts: by which drafters, from which root, for how many nodes, and how deep a tree may grow."""

    drafters: tuple[Drafter, ...]
    root: int
    budget: int
    deepest: int


class RoundTrees(NamedTuple):
    """What a round verifies, and what it was made from."""

    drafts: tuple[Lattice, ...]
    candidates: tuple[DraftTree, ...]
    tree: DraftTree


def step(runs: Sequence[RequestRun], allocator: BudgetAllocator | None = None) -> list[Round]:
    """Make one round of every run: one pass of the target, and one of each drafter that can draft for several at once.
    The seconds of each stage are those of all runs together. An ``allocator`` divides the rows among the runs."""
    clock = Clock()
    opened = [run.opened() for run in runs]
    drafts = _drafted(opened)
    clock.lap("draft")
    built = [run.built(each, own) for run, each, own in zip(runs, opened, drafts, strict=True)]
    built = _cut(runs, built, allocator)
    clock.lap("build")
    packed = [pack(each.tree, run.start) for run, each in zip(runs, built, strict=True)]
    clock.lap("pack")
    said = _verified(runs, packed)
    clock.lap("verify")
    accepted = [run.accepted(each.tree, own) for run, each, own in zip(runs, built, said, strict=True)]
    clock.lap("accept")
    features = [run.target.commit(each.keep) for run, each in zip(runs, accepted, strict=True)]
    clock.lap("keep")
    for run, each, kept, own in zip(runs, built, accepted, features, strict=True):
        run.observe(each.tree, kept, own)
    clock.lap("draft")
    seconds = clock.seconds()
    if allocator:
        allocator.ended([run.work.policy for run in runs], seconds)
    return [run.ended(each, own, kept, seconds)
            for run, each, own, kept in zip(runs, built, said, accepted, strict=True)]


def _cut(runs: Sequence[RequestRun], built: Sequence[RoundTrees],
         allocator: BudgetAllocator | None) -> list[RoundTrees]:
    """The parts of the trees that the target verifies."""
    policies, trees = [run.work.policy for run in runs], [each.tree for each in built]
    cut = allocator.cut(policies, trees) if allocator else [
        policy.cut(tree) for policy, tree in zip(policies, trees, strict=True)]
    return [each._replace(tree=tree) for each, tree in zip(built, cut, strict=True)]


def _drafted(opened: Sequence[DraftOrder]) -> list[tuple[Lattice, ...]]:
    """The drafters' lattices, by run."""
    if len(opened) == 1:
        drafters, root, budget, deepest = opened[0]
        return [tuple([drafter.draft(root, max(budget, 1)).cut(deepest) for drafter in drafters])]
    lattices = iter(_drafted_together([(drafter, each) for each in opened for drafter in each.drafters]))
    return [tuple(next(lattices).cut(each.deepest) for _ in each.drafters) for each in opened]


def _drafted_together(wishes: Sequence[tuple[Drafter, DraftOrder]]) -> list[Lattice]:
    """One pass for all forks of a drafter that can draft jointly, one pass each for the others."""
    groups: dict[int, list[int]] = {}
    for place, (drafter, _) in enumerate(wishes):
        groups.setdefault(id(drafter.weights if isinstance(drafter, JointDrafter) else drafter), []).append(place)
    found: dict[int, Lattice] = {}
    for places in groups.values():
        drafters, wanted = zip(*(wishes[place] for place in places), strict=True)
        roots, widths = [each.root for each in wanted], [max(each.budget, 1) for each in wanted]
        made = drafters[0].draft_together(drafters, roots, widths) if isinstance(drafters[0], JointDrafter) else [
            drafters[0].draft(roots[0], widths[0])]
        found.update(zip(places, made, strict=True))
    return [found[place] for place in range(len(wishes))]


def _verified(runs: Sequence[RequestRun], packed: Sequence[PackedTree]) -> list[Verification]:
    """The target's verification of every tree."""
    if len(runs) > 1 and isinstance(runs[0].target, JointTarget):
        return runs[0].target.verify_together([run.target for run in runs], packed)
    return [run.target.verify(own) for run, own in zip(runs, packed, strict=True)]


def bare(root: int) -> DraftTree:
    """The tree of a round that drafted nothing: the root alone."""
    zero: Integers = np.zeros(1, np.int32)
    return DraftTree(np.asarray([root], np.int32), zero, np.zeros(1, np.float32), zero)


def _end_of_text(acceptance: Acceptance, tree: DraftTree, request: Request, left: int) -> Acceptance:
    """End the kept path before a stop token, and at max_tokens: nothing after it reaches text, τ or cache."""
    tokens = tree.tokens.take(acceptance.keep).tolist()
    if len(tokens) <= left and request.stop_ids.isdisjoint(tokens):
        return acceptance
    length = min([left, *(place for place, token in enumerate(tokens) if token in request.stop_ids)])
    return replace(acceptance, keep=acceptance.keep[:length], bonus=tokens[length])
