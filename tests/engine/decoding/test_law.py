"""Is a lossless method's text distributed as the target's own? The joint law of the first three tokens.

Each test draws texts with seeds 0, 1, …, 2,000 of them and in a long run 10,000, and compares their counts with the
exact probabilities by a chi-square test. A right method fails one with probability ERROR_RATE, 1 in 100 for all of
them together; the seeds are fixed, so the outcome is too. Biased ways are run through the same test, and it has to
reject them. That the walking methods write the very text of autoregressive decoding, cuts included, is in test_decode.
"""

from dataclasses import dataclass, replace
from itertools import product
from math import erfc, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.decoding.loop import decode
from engine.decoding.methods import METHODS
from engine.decoding.plan import Drafter
from engine.records import Integers, Request, Sampling
from tests.engine.material import LOSSLESS, drafters_of, text
from tests.engine.toy import ToyDrafter, ToyTarget, drawn

ERROR_RATE = 0.0005
BIASED_TEXTS, LENGTH, VOCABULARY = 3_000, 3, 4
TEXTS = pytest.mark.parametrize("texts", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
PROMPT = (1, 3, 2)

WHOLE, CUT = Sampling(temperature=1.0), Sampling(temperature=0.7, top_k=3, top_p=0.95)


def small_target(kind: type[ToyTarget] = ToyTarget) -> ToyTarget:
    """Four tokens, 64 texts of three."""
    return kind(vocabulary=VOCABULARY, context_limit=8, sharpness=0.5, seed=4)


def exact_law(target: ToyTarget, sampling: Sampling) -> np.ndarray:
    """The probability of each text of three tokens behind the prompt: (64,) float64."""
    target.prefill(PROMPT, 8, sampling)
    table = np.exp(target.processed(), dtype=np.float64)
    law = []
    for tokens in product(range(VOCABULARY), repeat=LENGTH):
        chance, so_far = 1.0, list(PROMPT)
        for token in tokens:
            chance *= table[target.context(so_far), token]
            so_far.append(token)
        law.append(chance)
    found: NDArray[np.float64] = np.asarray(law) / np.sum(law)
    return found


@dataclass(frozen=True)
class Run:
    """What to draw: ``texts`` seeds of one method."""

    method: str
    budget: int
    sampling: Sampling
    texts: int


def sampled(target: ToyTarget, what: Run, chosen: list[Drafter] | None = None) -> np.ndarray:
    """Counts of the texts that a method writes, one seed each: (64,) float64."""
    drafters, counts = chosen or drafters_of(what.method, target, 2), np.zeros(VOCABULARY**LENGTH)
    for seed in range(what.texts):
        request = Request(PROMPT, method=what.method, budget=what.budget, max_tokens=LENGTH,
                          sampling=replace(what.sampling, seed=seed))
        place = 0
        for token in text(decode(request, target, drafters)):
            place = place * VOCABULARY + token
        counts[place] += 1
    return counts


def chance_of_more(counts: np.ndarray, law: np.ndarray) -> float:
    """The p-value: how often chance alone departs from the law as far as these counts do.

    Texts with fewer than 5 expected counts share a cell, impossible ones must not occur. The chi-square tail by
    the Wilson–Hilferty approximation, good to a few per cent of itself at these degrees of freedom.
    """
    if counts[law == 0].any():
        return 0.0
    expected = law * counts.sum()
    rare = expected < 5
    seen = np.append(counts[~rare], counts[rare].sum())
    due = np.append(expected[~rare], expected[rare].sum())
    seen, due = seen[due > 0], due[due > 0]
    freedom = len(due) - 1
    statistic = float(((seen - due) ** 2 / due).sum())
    score = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))
    return upper_tail(score)


def upper_tail(score: float) -> float:
    """The chance that a standard normal number lies above ``score``."""
    return erfc(score / sqrt(2)) / 2


@pytest.mark.slow
@TEXTS
@pytest.mark.parametrize("method", LOSSLESS)
def test_a_lossless_method_writes_the_targets_own_law(method: str, texts: int) -> None:
    target = small_target()
    counts = sampled(target, Run(method, 6, WHOLE, texts))
    assert counts.sum() == texts
    assert chance_of_more(counts, exact_law(target, WHOLE)) > ERROR_RATE


@pytest.mark.slow
@TEXTS
@pytest.mark.parametrize("method", [name for name in LOSSLESS if not METHODS[name].follows_text])
def test_removal_and_renormalisation_keep_a_law_that_is_cut(method: str, texts: int) -> None:
    target = small_target()
    law = exact_law(target, CUT)
    assert (law == 0).any()
    assert chance_of_more(sampled(target, Run(method, 6, CUT, texts)), law) > ERROR_RATE


def test_the_test_itself_keeps_its_error_rate() -> None:
    law, random = exact_law(small_target(), WHOLE), np.random.default_rng(0)
    values = np.asarray([chance_of_more(random.multinomial(BIASED_TEXTS, law).astype(float), law) for _ in range(2000)])
    for rate in (0.5, 0.1, 0.01):
        assert abs((values < rate).mean() - rate) < 4 * np.sqrt(rate * (1 - rate) / 2000)


@pytest.mark.slow
def test_the_ratio_rule_is_rejected() -> None:
    target = small_target()
    counts = sampled(target, Run("nanogpt_ratio", 6, WHOLE, BIASED_TEXTS))
    assert chance_of_more(counts, exact_law(target, WHOLE)) < 1e-6


class IndependentTarget(ToyTarget):
    """Draws anew at every row, as a target does that does not share draws between equal prefixes."""

    fresh = np.random.default_rng(99)

    def choose(self, rows: Integers, positions: np.ndarray) -> Integers:
        return drawn(np.exp(self.processed()[rows]), self.fresh.random(len(rows)))


@pytest.mark.slow
def test_the_deepest_match_among_independently_drawn_duplicates_is_rejected() -> None:
    target = small_target(IndependentTarget)
    twins: list[Drafter] = [ToyDrafter(target, 2, seed=0), ToyDrafter(target, 2, seed=0)]
    counts = sampled(target, Run("merged", 12, WHOLE, BIASED_TEXTS), twins)
    assert chance_of_more(counts, exact_law(target, WHOLE)) < 1e-6


@pytest.mark.slow
def test_independent_draws_without_duplicates_are_exact() -> None:
    target = small_target(IndependentTarget)
    counts = sampled(target, Run("ddtree", 6, WHOLE, BIASED_TEXTS))
    assert chance_of_more(counts, exact_law(target, WHOLE)) > ERROR_RATE
