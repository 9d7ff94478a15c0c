"""Is a lossless method's text distributed as the target's own? The joint distribution of its first three tokens.

Each test draws texts with seeds 0, 1, …, 2,000 of them and in a long run 10,000, and compares their counts with the
exact probabilities by a chi-square test. A right method fails one with probability ERROR_RATE, 1 in 100 for all of
them together; the seeds are fixed, so the outcome is too. Biased methods are run through the same test, and it has to
reject them. Methods that follow the text write the text of autoregressive decoding itself, with cuts (``test_loop``),
so that in a short run its distribution stands for theirs.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import erfc, sqrt

import numpy as np
import pytest

from engine.decoding.methods import METHODS
from engine.decoding.protocols import Drafter
from engine.records import Integers, Request, Sampling
from tests.engine.helpers import LOSSLESS, decode, drafters_of, text
from tests.engine.toy import ToyDrafter, ToyTarget, drawn

ERROR_RATE = 0.0005
TEXTS, MANY_TEXTS, LENGTH, VOCABULARY = 2_000, 10_000, 3, 4
PROMPT = (1, 3, 2)

WHOLE, CUT = Sampling(temperature=1.0), Sampling(temperature=0.7, top_k=3, top_p=0.95)
WITH_DRAWS = [method for method in LOSSLESS if not METHODS[method].follows_text]


def small_target(kind: type[ToyTarget] = ToyTarget) -> ToyTarget:
    """Return a target with a vocabulary of four, so that there are 64 texts of three tokens."""
    return kind(vocabulary=VOCABULARY, context_limit=8, sharpness=0.5, seed=4)


def exact_distribution(target: ToyTarget, sampling: Sampling) -> np.ndarray:
    """Return the probability of each text of three tokens after the prompt: (64,) float64."""
    target.prefill(PROMPT, 8, sampling)
    table = np.exp(target.processed(), dtype=np.float64)
    probabilities = np.ones(VOCABULARY**LENGTH)
    for number, tokens in enumerate(product(range(VOCABULARY), repeat=LENGTH)):
        for read, token in enumerate(tokens):
            probabilities[number] *= table[target.context([*PROMPT, *tokens[:read]]), token]
    probabilities /= probabilities.sum()
    return probabilities


def count_texts(target: ToyTarget, method: str, sampling: Sampling, texts: int = TEXTS, budget: int = 6,
                drafters: Sequence[Drafter] = ()) -> np.ndarray:
    """Count the texts that a method writes with seeds 0, 1, …: (64,) float64."""
    drafters, counts = drafters or drafters_of(method, target, 2), np.zeros((VOCABULARY,) * LENGTH)
    for seed in range(texts):
        request = Request(
            PROMPT, method=method, budget=budget, max_tokens=LENGTH, sampling=replace(sampling, seed=seed))
        counts[tuple(text(decode(request, target, drafters)))] += 1
    return counts.ravel()


def p_value(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the p-value: the probability that chance departs from the distribution as far as these counts do.

    Texts with fewer than 5 expected counts share a cell; impossible ones must not occur. The chi-square tail is the
    Wilson–Hilferty approximation, which is good to a few per cent at these degrees of freedom.
    """
    if counts[probabilities == 0].any():
        return 0.0
    expected = probabilities * counts.sum()
    rare = expected < 5
    seen = np.append(counts[~rare], counts[rare].sum())
    due = np.append(expected[~rare], expected[rare].sum())
    seen, due = seen[due > 0], due[due > 0]
    freedom = len(due) - 1
    statistic = float(((seen - due) ** 2 / due).sum())
    score = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))
    return erfc(score / sqrt(2)) / 2  # the probability of a standard normal value above the score


@pytest.mark.slow
@pytest.mark.parametrize(("method", "sampling", "texts"), [
    ("autoregressive", WHOLE, TEXTS), *product(WITH_DRAWS, [WHOLE, CUT], [TEXTS]),
    *(pytest.param(*case, marks=pytest.mark.long) for case in (
        *product(LOSSLESS, [WHOLE], [MANY_TEXTS]), *product(WITH_DRAWS, [CUT], [MANY_TEXTS])))])
def test_a_lossless_method_writes_the_targets_law(method: str, sampling: Sampling, texts: int) -> None:
    target = small_target()
    probabilities = exact_distribution(target, sampling)
    assert (probabilities == 0).any() == (sampling is CUT)
    assert p_value(count_texts(target, method, sampling, texts), probabilities) > ERROR_RATE


def test_the_chi_square_test_has_its_error_rate() -> None:
    probabilities, random = exact_distribution(small_target(), WHOLE), np.random.default_rng(0)
    counts = random.multinomial(TEXTS, probabilities, size=2000).astype(float)
    values = np.asarray([p_value(row, probabilities) for row in counts])
    for rate in (0.5, 0.1, 0.01):
        assert abs((values < rate).mean() - rate) < 4 * np.sqrt(rate * (1 - rate) / 2000)


class IndependentTarget(ToyTarget):
    """Draw independently at every row, as a target that shares no draws between equal prefixes."""

    fresh = np.random.default_rng(99)

    def choose(self, rows: Integers, positions: np.ndarray) -> Integers:
        return drawn(np.exp(self.processed()[rows]), self.fresh.random(len(rows)))


@pytest.mark.slow
def test_the_ratio_rule_is_rejected() -> None:
    target = small_target()
    assert p_value(count_texts(target, "nanogpt_ratio", WHOLE), exact_distribution(target, WHOLE)) < 1e-6


@pytest.mark.slow
def test_with_independent_draws_duplicates_bias_the_deepest_match() -> None:
    target = small_target(IndependentTarget)
    probabilities = exact_distribution(target, WHOLE)
    twins = [ToyDrafter(target, 2, seed=0), ToyDrafter(target, 2, seed=0)]
    assert p_value(count_texts(target, "merged", WHOLE, budget=12, drafters=twins), probabilities) < 1e-6
    assert p_value(count_texts(target, "ddtree", WHOLE), probabilities) > ERROR_RATE
