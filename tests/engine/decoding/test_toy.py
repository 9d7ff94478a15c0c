"""The toy itself, on which other tests rest; the n-gram drafter against plain counting."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafters.ngram import NGramDrafter

PROMPT = (1, 2, 3, 1)


def law_by_counting(text: list[int], context: tuple[int, int], vocabulary: int) -> np.ndarray:
    """Return the n-gram distribution (vocabulary,) float64 by counting over the whole text."""
    padded = [-1, -1, *text]
    threes = Counter(zip(padded, padded[1:], padded[2:], strict=False))
    law = np.asarray([(text.count(token) + 1 / vocabulary) / (len(text) + 1) for token in range(vocabulary)])
    for before in ((context[1],), context):
        seen = np.zeros(vocabulary)
        for (first, second, token), times in threes.items():
            seen[token] += times if (first, second)[-len(before):] == before else 0
        law = (seen + law) / (seen.sum() + 1)
    return law


@settings(max_examples=60)
@given(st.lists(st.integers(0, 5), max_size=25), st.integers(0, 5), st.integers(1, 7))
def test_the_ngram_drafter_proposes_the_likeliest_tokens_of_its_law(text: list[int], root: int, width: int) -> None:
    drafter = NGramDrafter(6, depth=3, width=4)
    drafter.begin(64)
    for part in (text[:10], text[10:]):
        drafter.observe(np.asarray(part, np.int32), None)
    lattice = drafter.draft(root, width)
    assert lattice.tokens.shape[::2] == (3, min(width, 4))
    level = {0: ((text or [-1])[-1], root)}
    for depth in range(3):
        below: dict[int, tuple[int, int]] = {}
        for row, context in level.items():
            law = law_by_counting(text, context, 6)
            assert law.sum() == pytest.approx(1)
            order = np.lexsort((np.arange(6), -np.round(law, 12)))[:min(width, 4)]
            assert lattice.tokens[depth, row].tolist() == order.tolist()
            assert np.allclose(np.exp(lattice.logprobs[depth, row]), law[order], atol=1e-6)
            cells = zip(lattice.tokens[depth, row].tolist(), lattice.follow[depth, row].tolist(), strict=True)
            for token, leads in cells:
                assert depth == 2 or below.setdefault(leads, (context[1], token)) == (context[1], token)
        level = below
    assert (lattice.logprobs <= 0).all()


def test_the_ngram_drafter_resets_and_covers_small_vocabularies() -> None:
    drafter = NGramDrafter(1)
    drafter.begin(8)
    assert drafter.draft(0, 64).tokens.shape[::2] == (5, 1)
    drafter.observe(np.asarray([0, 0, 0], np.int32), None)
    assert np.allclose(np.exp(drafter.draft(0, 64).logprobs[:, 0]), 1)
    other = NGramDrafter(50)
    fresh = other.draft(7, 2).logprobs.copy()
    other.observe(np.arange(20, dtype=np.int32), None)
    assert not np.array_equal(other.draft(7, 2).logprobs, fresh)
    other.release()
    assert np.array_equal(other.draft(7, 2).logprobs, fresh)
