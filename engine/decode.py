"""The decode loop, and what it asks of a target and of a drafter. Torch-free: the toy and the real one run here.

    draft ─► build ─► combine ─► pack ─► verify ─► accept ─► keep ─► observe

A round costs one pass of each drafter and one of the target. The loop is an iterator: whoever consumes it decides
when the next round runs, and closing it releases the cache.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from engine.acceptance import ACCEPTANCE_RULES, AcceptanceRule, Residual
from engine.budget_policy import PACES, BudgetPolicy, FixedBudget
from engine.builders import BUILDERS, Builder
from engine.clock import Clock
from engine.combiners import COMBINERS, Combiner
from engine.draws import trial_draws
from engine.errors import RequestError
from engine.limits import check_budget, check_max_tokens, check_sampling
from engine.methods import Share, method_named, share_named
from engine.records import Acceptance, DraftTree, Integers, Lattice, PackedTree, Request, Round, Sampling, Verification
from engine.tree import pack

Features = Any  # the target's tapped hidden states, on its device: the loop only carries them to the drafters


class Target(Residual, Protocol):
    """The model whose text it is."""

    @property
    def context_limit(self) -> int:
        """How many positions the target knows."""

    def prefill(self, prompt_ids: Sequence[int], rows: int, sampling: Sampling) -> tuple[int, Features]:
        """Read the prompt into an empty cache with room for ``rows`` more rows; its choice after the prompt,
        and the features of every prompt position."""

    def verify(self, packed: PackedTree) -> Verification:
        """One pass over the packed rows after the cache. The cache keeps the rows until ``commit``."""

    def commit(self, keep: Integers) -> Features:
        """Keep these rows of the last pass, in this order, drop the others, and return the kept rows' features."""

    def release(self) -> None:
        """Free the cache."""


class Drafter(Protocol):
    """A drafter: proposes what may follow the root, having observed what was committed."""

    def begin(self, rows: int) -> None:
        """Forget everything; make room for a text of ``rows`` positions."""

    def observe(self, token_ids: Integers, features: Features) -> None:
        """Committed tokens, in order, with the target's features of their positions."""

    def draft(self, root: int, width: int) -> Lattice:
        """What may follow ``root``, the ``width`` most likely tokens of each row."""

    def release(self) -> None:
        """Free whatever ``begin`` and ``observe`` allocated."""


@dataclass(frozen=True)
class Plan:
    """A request with its names looked up, and the drafters that serve it."""

    request: Request
    heads: tuple[Drafter, ...]
    build: Builder
    combine: Combiner
    accept: AcceptanceRule
    share: Share
    policy: BudgetPolicy = field(default_factory=FixedBudget)


def plan(request: Request, target: Target, drafters: Sequence[Drafter]) -> Plan:
    """Look the request's names up and check its numbers against the target and the drafters at hand."""
    method = method_named(request.method)
    if len(drafters) < method.heads:
        raise RequestError(
            f"The method {request.method} needs {method.heads} drafters; this rig has {len(drafters)}.")
    check_budget(request.budget)
    if request.pace not in PACES:
        raise RequestError(f"There is no pace {request.pace!r}; choose one of {', '.join(PACES)}.")
    check_max_tokens(request.max_tokens)
    if not request.prompt_ids:
        raise RequestError("The prompt is empty; write at least one character.")
    if len(request.prompt_ids) >= target.context_limit:
        raise RequestError(
            f"The prompt has {len(request.prompt_ids)} tokens; the target knows {target.context_limit} positions, "
            f"so shorten it to at most {target.context_limit - 1}.")
    check_sampling(request.sampling)
    return Plan(
        request, tuple(drafters[:method.heads]), BUILDERS[method.build], COMBINERS[method.combine],
        ACCEPTANCE_RULES[method.accept], share_named(method, request.split))


def decode(request: Request, target: Target, drafters: Sequence[Drafter],
           policy: BudgetPolicy | None = None) -> Generator[Round, None, None]:
    """The rounds that answer a request, each yielded as soon as its tokens are committed.

    Without a ``policy`` every round drafts and verifies the whole budget. Raises RequestError before the first round
    when the request cannot be served.
    """
    work = plan(request, target, drafters)
    return _rounds(replace(work, policy=policy) if policy else work, target)


def _rounds(work: Plan, target: Target) -> Generator[Round, None, None]:
    request, random = work.request, trial_draws(work.request.sampling.seed)
    start, left, index = len(request.prompt_ids), request.max_tokens, 0
    try:
        root = _open(work, target)
        while left > 0 and root not in request.stop_ids and start < target.context_limit:
            made = _round(work, target, Standing(index, start, root, left), random)
            start += len(made.acceptance.keep)
            left -= len(made.acceptance.keep)
            root, index = made.acceptance.bonus, index + 1
            yield made
    finally:
        target.release()
        for head in work.heads:
            head.release()


@dataclass(frozen=True)
class Standing:
    """Where the text stands when a round begins: its number, the prefix length, the root, the tokens left."""

    index: int
    start: int
    root: int
    left: int


def _open(work: Plan, target: Target) -> int:
    prompt_ids = np.asarray(work.request.prompt_ids, np.int32)
    rows = min(len(prompt_ids) + work.request.max_tokens, target.context_limit)
    for head in work.heads:
        head.begin(rows)
    most = 1 + sum(work.share(work.request.budget, len(work.heads)))
    root, features = target.prefill(work.request.prompt_ids, rows - len(prompt_ids) + most, work.request.sampling)
    for head in work.heads:
        head.observe(prompt_ids, features)
    return root


def _round(work: Plan, target: Target, at: Standing, random: np.random.Generator) -> Round:
    clock = Clock()
    drafting, budget = work.policy.opens(len(work.heads), work.request.budget)
    deepest = target.context_limit - at.start - 1
    drafts = tuple(head.draft(at.root, max(budget, 1)).cut(deepest) for head in work.heads[:drafting])
    clock.lap("draft")
    shares = work.share(budget, drafting)
    candidates = tuple(work.build(draft, at.root, share) for draft, share in zip(drafts, shares, strict=True))
    tree = work.policy.cut(work.combine(candidates, budget)) if candidates else bare(at.root)
    clock.lap("build")
    packed = pack(tree, at.start)
    clock.lap("pack")
    verification = target.verify(packed)
    clock.lap("verify")
    acceptance = _end_of_text(work.accept(tree, verification, target, random), tree, work.request, at.left)
    work.policy.learn(tree, acceptance)
    clock.lap("accept")
    features = target.commit(acceptance.keep)
    clock.lap("keep")
    for head in work.heads:
        head.observe(tree.tokens.take(acceptance.keep), features)
    clock.lap("draft")
    return Round(at.index, at.start, drafts, candidates, tree, verification, acceptance, clock.seconds())


def bare(root: int) -> DraftTree:
    """The tree that nobody drafted: its root."""
    zero = np.zeros(1, np.int32)
    return DraftTree(np.asarray([root], np.int32), zero, np.zeros(1, np.float32), zero)


def _end_of_text(acceptance: Acceptance, tree: DraftTree, request: Request, left: int) -> Acceptance:
    """End the kept path before a stop token, and at max_tokens: nothing after it reaches text, τ or cache."""
    tokens = tree.tokens.take(acceptance.keep).tolist()
    if len(tokens) <= left and request.stop_ids.isdisjoint(tokens):
        return acceptance
    length = min([left, *(place for place, token in enumerate(tokens) if token in request.stop_ids)])
    return replace(acceptance, keep=acceptance.keep[:length], bonus=tokens[length])
