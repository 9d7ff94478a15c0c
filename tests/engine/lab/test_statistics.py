"""Histogram, calibration and intervals, from readings of the toy and of a recorded trace."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest

from engine.lab.settings import Reading
from engine.lab.statistics import acceptance, calibration, estimate, histogram, interval_rank, reading_of, whole_rounds
from engine.records import PromptRequest
from engine.trace import committed_ids, load, tau
from tests.engine.lab.scripted import read_off, rounds_of


def test_a_reading_holds_what_the_rounds_held() -> None:
    rounds = rounds_of(PromptRequest("a prompt", method="merged", budget=12, max_tokens=40))
    found = read_off(rounds)
    assert list(found.token_ids) == committed_ids(rounds)
    assert found.tau == pytest.approx(tau(rounds))
    assert found.prefill_seconds == pytest.approx(5e-3)
    assert found.seconds == pytest.approx(sum(1e-3 + 1e-5 * len(made.tree) for made in rounds))
    assert found.stage_seconds["verify"] == pytest.approx(found.seconds)
    assert found.tokens_per_second == pytest.approx(40 / found.seconds)
    assert found.rows == tuple(len(made.tree) for made in rounds)
    last = rounds[-1]
    assert found.gaps[-1] == last.verification.gap[last.acceptance.keep[-1]]
    assert len(found.gaps) == len(found.token_ids)


@pytest.mark.parametrize("max_tokens", range(20, 32))
def test_a_round_that_the_text_cut_short_says_nothing_of_the_drafter(max_tokens: int) -> None:
    rounds = rounds_of(PromptRequest("a prompt", method="ddtree", budget=24, max_tokens=max_tokens))
    whole = rounds_of(PromptRequest("a prompt", method="ddtree", budget=24, max_tokens=60))[len(rounds) - 1]
    cut = len(rounds[-1].acceptance.keep) < len(whole.acceptance.keep)
    found = read_off(rounds)
    assert found.cut == cut
    assert found.acceptance.reached[0] == len(rounds) - cut
    assert len(whole_rounds(found)) == len(rounds) - cut
    assert sum(histogram([found])) == len(rounds)


def test_a_run_without_a_round_is_a_reading_too() -> None:
    empty = read_off([])
    assert (empty.rounds, empty.tau, empty.tokens_per_second, empty.bonus, empty.cut) == (0, 0, 0, -1, False)
    assert calibration([empty]) is None
    assert acceptance([empty]) == ()


def test_a_recorded_run_gives_the_same_statistics() -> None:
    trace = load(Path("assets/traces/welcome.jsonl.gz"))
    found = reading_of(trace)
    rounds = [entry.round for entry in trace.entries]
    assert found.tau == pytest.approx(tau(rounds))
    assert found.prefill_seconds + found.seconds == pytest.approx(trace.entries[-1].elapsed_seconds)
    assert found.prefill_seconds > 0
    assert sum(histogram([found])) == len(rounds)
    cells = acceptance([found])
    assert all(0 <= cell.accepted <= cell.proposed for cell in cells)
    assert cells[0].depth == 1
    assert calibration([found]) is not None


def uniform_reading(expected: list[float], lengths: list[int]) -> Reading:
    """A reading of which only the lengths matter."""
    blank = read_off([])
    return replace(blank, expected=tuple(expected), lengths=tuple(lengths), rows=(9,) * len(lengths))


def test_calibration_sees_a_drafter_that_promises_too_much() -> None:
    random = np.random.default_rng(0)
    promised = random.uniform(1, 9, 4000)
    kept = 1 + random.poisson((promised - 1) / 2)
    found = calibration([uniform_reading(promised.tolist(), kept.tolist())])
    assert found is not None
    assert found.excess == pytest.approx(2, rel=0.05)
    assert len(found.bins) == 10
    assert {each.rounds for each in found.bins} == {400}
    for each in found.bins:
        assert each.low is not None and each.high is not None
        assert each.low < each.realised < each.high
        assert each.realised == pytest.approx(1 + (each.expected - 1) / 2, abs=0.4)
    assert sorted(found.bins, key=lambda each: each.expected) == list(found.bins)


def test_calibration_leaves_out_what_says_nothing_of_the_drafter() -> None:
    cut = replace(uniform_reading([3.0, 4.0], [2, 1]), cut=True)
    assert whole_rounds(cut) == [(3.0, 2)]
    plain = replace(uniform_reading([1.0, 1.0], [1, 1]), rows=(1, 1))
    assert calibration([plain]) is None
    nothing_taken = calibration([uniform_reading([3.0], [1])])
    assert nothing_taken is not None
    assert nothing_taken.excess is None
    assert (nothing_taken.bins[0].low, nothing_taken.bins[0].rounds) == (None, 1)


@pytest.mark.parametrize(("count", "rank"), [(0, 0), (1, 0), (5, 0), (6, 1), (9, 2), (24, 7), (200, 86)])
def test_the_interval_holds_the_median_often_enough(count: int, rank: int) -> None:
    def missed(below: int) -> float:
        return sum(comb(count, hits) for hits in range(below)) / float(1 << count) * 2

    assert interval_rank(count) == rank
    if rank:
        assert missed(rank) <= 0.05 < missed(rank + 1)


def test_few_values_have_a_median_and_no_interval() -> None:
    found = estimate([3.0, 1.0])
    assert (found.median, found.low, found.high, found.least, found.most, found.prompts) == (2, None, None, 1, 3, 2)
