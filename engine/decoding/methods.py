"""The methods, one row each, made of builders, combiners and acceptance rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from engine.decoding.acceptance import AcceptanceRule, ratio, sequential, walk
from engine.decoding.builders import Builder, best_first, chain, expand, full
from engine.decoding.combiners import Combiner, joint, merged, only, routed
from engine.errors import RequestError


def full_budget(budget: int, drafter_count: int) -> tuple[int, ...]:
    """Give every drafter the whole budget."""
    return (budget,) * drafter_count


def even_split(budget: int, drafter_count: int) -> tuple[int, ...]:
    """Split the budget evenly; the first drafters get the remainder."""
    return tuple((budget + drafter_count - 1 - drafter) // drafter_count for drafter in range(drafter_count))


BLOCK, PATH, NGRAM = "dflash", "path", "ngram"  # families of drafters
SplitRule = Callable[[int, int], tuple[int, ...]]
EQUAL_ROWS: Mapping[str, SplitRule] = MappingProxyType({"total": full_budget, "each": full_budget})


@dataclass(frozen=True)
class Method:
    """A method: how many drafters draft, how trees are built and combined, and how nodes are accepted.

    ``family`` is the kind of drafter that it is meant for: ``dflash`` (marginals of a block), ``path`` (one that
    sees its own path), ``ngram``. Any drafter serves any method; the rig chooses by ``family`` if none is named.
    """

    drafter_count: int
    build: Builder = best_first
    combine: Combiner = only
    accept: AcceptanceRule = walk
    family: str = BLOCK
    split_rules: Mapping[str, SplitRule] = field(default_factory=lambda: EQUAL_ROWS)
    lossless: bool = True
    summary: str = ""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of a budget; only ``total`` if all are the same."""
        return tuple(self.split_rules) if len(set(self.split_rules.values())) > 1 else ("total",)

    @property
    def follows_text(self) -> bool:
        """Whether acceptance depends only on the target's tokens, so that it can be computed from a known text.

        If so, the text is exactly plain decoding's of the same seed. Other lossless methods draw numbers themselves and
        write another text of the same distribution.
        """
        return self.accept is walk

    @property
    def replayable(self) -> bool:
        """Whether acceptance at smaller budgets can be computed from a recorded run. At larger ones a drafter may
        propose more than was recorded: a phrase table follows one path per node of the budget."""
        return self.follows_text and self.family == BLOCK

    def takes(self, drafter_count: int) -> bool:
        """Return whether a request may name this many drafters; other families' methods let the rig choose."""
        return self.family == BLOCK and self.drafter_count == drafter_count > 0


METHODS: Mapping[str, Method] = {
    "autoregressive": Method(0, build=chain, summary="No drafter: the target writes one token a pass."),
    "dflash": Method(1, build=chain, summary="One block-diffusion drafter, its most likely chain (DFlash)."),
    "ddtree": Method(1, summary="The most probable prefixes under the drafter's marginals (DDTree)."),
    "routed": Method(2, combine=routed, summary="Two trees are drafted; the more confident one is verified."),
    "merged": Method(2, combine=merged, split_rules=MappingProxyType({"total": even_split, "each": full_budget}),
                     summary="Two disjoint trees under one root are verified in one pass."),
    "joint": Method(2, combine=joint, summary="One tree over both drafters; a shared prefix is one node."),
    "expand": Method(1, build=expand, family=PATH,
                     summary="A drafter that sees its own path grows the best nodes of each depth (EAGLE-2)."),
    "nanogpt": Method(1, build=full, accept=sequential, family=NGRAM,
                      summary="A full depth × width tree over an n-gram drafter, children tried in turn."),
    "nanogpt_ratio": Method(1, build=full, accept=ratio, family=NGRAM, lossless=False,
                            summary="The same tree accepted with min(1, p/q). Biased: for study only."),
}


SERVED = "served"  # of an attached server, whose own options decide how it drafts


def method_named(name: str) -> Method:
    """Return the row of that name; RequestError with the existing names if there is none."""
    if name not in METHODS:
        raise RequestError(f"There is no method {name[:40]!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[name]


def split_rule_of(method: Method, split: str) -> SplitRule:
    """Return the rule that splits a budget between drafters; RequestError for an unknown split."""
    if split not in method.split_rules:
        raise RequestError(f"There is no split {split[:40]!r}; choose one of {', '.join(method.split_rules)}.")
    return method.split_rules[split]
