"""The corpus is the one that the shipped weights were trained on: the same items from the same seed, to the byte."""

from __future__ import annotations

import hashlib
import random

import pytest

from engine.recipes.corpus.mixture import MAKERS

ITEMS = 1500
# Of what the corpus wrote when its texts still stood in Python. Change one only together with the weights.
SEEN = {
    "math": "4a340679fc032199875068b36f5b29e07f47035331bc855ba4f9acfbd0af1981",
    "code": "0a23e0f5af209af8150782c8797334aaec7dfaaff582ce42fa3b005643114363",
    "mixed": "45de2f288e66b885f02a77b77fa1435c5f014407066159b861625d5fb2da4db8",
    "explain": "5c7a7fdee75b477b4dcfba5378106e4642c296ea39eec6a58f8d3a6e7951042f",
}


@pytest.mark.parametrize("domain", MAKERS)
def test_a_seed_makes_the_items_that_it_made(domain: str) -> None:
    generator, digest = random.Random(f"hash-{domain}"), hashlib.sha256()
    for _ in range(ITEMS):
        item = MAKERS[domain](generator)
        digest.update(repr((item.domain, item.prompt, item.response, item.check)).encode())
    assert digest.hexdigest() == SEEN[domain]
