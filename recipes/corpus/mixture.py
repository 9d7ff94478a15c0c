"""How often each domain is drawn, and from which split: training items never have a test prompt."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from recipes.corpus.code_functions import make_code
from recipes.corpus.explanations import make_explain
from recipes.corpus.items import Item, ItemMaker, is_test
from recipes.corpus.math_problems import make_math
from recipes.corpus.mixed_tasks import make_mixed

MAKERS: Mapping[str, ItemMaker] = MappingProxyType({
    "math": make_math, "code": make_code, "mixed": make_mixed, "explain": make_explain})

Shares = Mapping[str, float]
TARGET_SHARES: Shares = MappingProxyType({"math": 0.44, "code": 0.27, "mixed": 0.17, "explain": 0.12})
# The end of the target's training leans on what it learns slowest: after 8 M tokens at the shares above 93 % of the
# math answers were exact, but only 78 % of the functions passed.
FINISH_SHARES: Shares = MappingProxyType({"code": 0.62, "math": 0.22, "mixed": 0.08, "explain": 0.08})
# A specialist sees mostly its own domain and some of the others, so that routing and merging have something to
# decide; mixed texts go to both by halves of what is left.
DRAFTER_SHARES: Mapping[str, Shares] = MappingProxyType({
    "math": MappingProxyType({"math": 0.80, "mixed": 0.10, "code": 0.05, "explain": 0.05}),
    "code": MappingProxyType({"code": 0.80, "mixed": 0.10, "math": 0.05, "explain": 0.05}),
    "all": MappingProxyType({"math": 0.35, "code": 0.35, "mixed": 0.15, "explain": 0.15}),
})
DRAFTER_FINISH_SHARES: Mapping[str, Shares] = MappingProxyType({
    "math": MappingProxyType({"math": 0.40, "code": 0.40, "mixed": 0.15, "explain": 0.05}),
    "code": MappingProxyType({"code": 0.45, "math": 0.35, "mixed": 0.15, "explain": 0.05}),
})
# Of the items that the target answers itself; with 35 % math the code drafter came so near the math drafter there that
# routing picked the specialist in 84 % of the rounds of math.
DRAFTER_OWN_SHARES: Mapping[str, Shares] = MappingProxyType({
    "code": MappingProxyType({"code": 0.62, "math": 0.18, "mixed": 0.15, "explain": 0.05}),
})


def training_items(shares: Shares, seed: str) -> Iterator[Item]:
    """Yield training items without end, domains drawn by their shares of the items."""
    generator = random.Random(seed)
    names, weights = list(shares), list(shares.values())
    while True:
        item = MAKERS[generator.choices(names, weights)[0]](generator)
        if not is_test(item):
            yield item


def unseen_items(domain: str, count: int, seed: str = "test") -> list[Item]:
    """Return ``count`` different items of the test split."""
    generator = random.Random(f"{seed}-{domain}")
    items: dict[str, Item] = {}
    while len(items) < count:
        item = MAKERS[domain](generator)
        if is_test(item):
            items.setdefault(item.prompt, item)
    return list(items.values())
