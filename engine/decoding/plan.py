"""What a run is made of: what the loop asks of a target and of a drafter, and a request with its names looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from engine.acceptance import ACCEPTANCE_RULES, AcceptanceRule, Residual
from engine.builders import BUILDERS, Builder
from engine.combiners import COMBINERS, Combiner
from engine.decoding.budget_policy import PACES, BudgetPolicy, FixedBudget
from engine.errors import RequestError
from engine.methods import Share, method_named, share_named
from engine.records import Integers, Lattice, PackedTree, Request, Sampling, Verification
from engine.requests.limits import check_budget, check_max_tokens, check_sampling

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

    def fork(self) -> Target:
        """The same weights for another text: a cache of its own, empty."""


@runtime_checkable
class JointTarget(Protocol):
    """A target that reads the trees of several texts in one pass."""

    def verify_together(self, forks: Sequence[Any], packed: Sequence[PackedTree]) -> list[Verification]:
        """What ``verify`` of each fork says of its own tree."""


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

    def fork(self) -> Drafter:
        """The same weights for another text, of which nothing has been observed yet."""


@runtime_checkable
class JointDrafter(Protocol):
    """A drafter that drafts for several texts in one pass."""

    @property
    def weights(self) -> object:
        """What all its forks share and no other drafter has."""

    def draft_together(self, forks: Sequence[Any], roots: Sequence[int], widths: Sequence[int]) -> list[Lattice]:
        """What ``draft`` of each fork gives."""


@dataclass(frozen=True)
class Plan:
    """A request with its names looked up, and the drafters that serve it."""

    request: Request
    drafters: tuple[Drafter, ...]
    build: Builder
    combine: Combiner
    accept: AcceptanceRule
    share: Share
    policy: BudgetPolicy = field(default_factory=FixedBudget)


def plan(request: Request, target: Target, drafters: Sequence[Drafter]) -> Plan:
    """Look the request's names up and check its numbers against the target and the drafters at hand."""
    method = method_named(request.method)
    if len(drafters) < method.drafter_count:
        raise RequestError(
            f"The method {request.method} needs {method.drafter_count} drafters; this rig has {len(drafters)}.")
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
        request, tuple(drafters[:method.drafter_count]), BUILDERS[method.build], COMBINERS[method.combine],
        ACCEPTANCE_RULES[method.accept], share_named(method, request.split))
