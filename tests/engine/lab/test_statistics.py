"""Histogram, calibration, intervals, expected lengths, and acceptance by depth and rank: from readings of the toy and
of a recorded trace, by hand and by brute force."""

from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from engine.decoding.methods import METHODS
from engine.decoding.tree import path_to
from engine.lab.reading import RANKS, Reading, count_acceptance, ended_by_text, expected_length, reading_of
from engine.lab.statistics import acceptance, calibration, estimate, histogram, interval_rank, whole_rounds
from engine.records import DraftTree, Lattice, PromptRequest, Round, Sampling
from engine.trace import committed_ids, load, tau
from tests.engine.lab.scripted import read_off, rounds_of
from tests.engine.material import trees


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


def prefix(tree: DraftTree, node: int) -> tuple[int, ...]:
    """The tokens from behind the root down to a node."""
    return tuple(tree.tokens[path_to(tree.parents, node)[1:]].tolist())


@pytest.mark.slow
@given(trees())
def test_the_expected_length_counts_every_distinct_prefix_once(tree: DraftTree) -> None:
    best: dict[tuple[int, ...], float] = {}
    for node in range(1, len(tree)):
        own = prefix(tree, node)
        best[own] = max(best.get(own, 0), float(np.exp(tree.logprobs[node])))
    assert expected_length(tree) == pytest.approx(1 + sum(best.values()))


def tallied(rounds: list[Round]) -> dict[tuple[int, int], list[int]]:
    """Proposed and accepted by (depth, rank), slowly: from the prefixes of single-row lattices."""
    found: dict[tuple[int, int], list[int]] = {}
    for made in rounds:
        kept = tuple(made.committed[1:].tolist())
        proposed = {prefix(made.tree, node): 0 for node in range(1, len(made.tree))}
        for own in proposed:
            if own[:-1] != kept[:len(own) - 1]:
                continue
            drafters = {drafter for node in range(1, len(made.tree)) if prefix(made.tree, node) == own
                        for drafter in range(len(made.drafts)) if made.tree.drafters[node] >> drafter & 1}
            rank = min(made.drafts[drafter].tokens[len(own) - 1, 0].tolist().index(own[-1]) for drafter in drafters)
            cell = found.setdefault((len(own), min(rank, RANKS - 1)), [0, 0])
            cell[0] += 1
            cell[1] += own == kept[:len(own)]
    return found


@pytest.mark.parametrize("method", ["dflash", "ddtree", "routed", "merged", "joint"])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=1)], ids=["greedy", "warm"])
def test_acceptance_agrees_with_a_slow_count(method: str, sampling: Sampling) -> None:
    rounds = [made for made in rounds_of(PromptRequest("a long walk", method=method, budget=20, max_tokens=60,
                                             sampling=sampling)) if not ended_by_text(made)]
    assert len(rounds) > 8
    counts = count_acceptance(rounds)
    found = {(depth, rank): [proposed, counts.accepted[depth - 1][rank]]
             for depth, row in enumerate(counts.proposed, 1) for rank, proposed in enumerate(row) if proposed}
    assert found == tallied(rounds)
    halves = [replace(read_off([]), acceptance=count_acceptance(half)) for half in (rounds[:3], rounds[3:])]
    assert acceptance(halves) == acceptance([replace(halves[0], acceptance=counts)])
    assert sum(map(sum, counts.accepted)) == sum(len(made.acceptance.keep) - 1 for made in rounds)
    assert counts.reached[0] == len(rounds)
    assert counts.reached[1] == sum(len(made.acceptance.keep) > 1 for made in rounds)


def test_a_rank_is_read_in_the_row_that_the_path_leads_to() -> None:
    tokens = np.asarray([[[5, 6], [0, 0]], [[7, 8], [8, 7]]], np.int32)
    follow = np.asarray([[[0, 1], [0, 0]], [[0, 0], [0, 0]]], np.int32)
    lattice = Lattice(tokens, np.full((2, 2, 2), -1, np.float32), follow)
    made = rounds_of(PromptRequest("x", method="ddtree", budget=2, max_tokens=4))[0]
    tree = DraftTree(np.asarray([1, 6, 8], np.int32), np.asarray([0, 0, 1], np.int32),
                     np.asarray([0, -1, -2], np.float32), np.asarray([0, 1, 1], np.int32))
    made = replace(made, drafts=(lattice,), tree=tree, acceptance=replace(
        made.acceptance, keep=np.asarray([0, 1, 2], np.int32)))
    # 6 is second of the first row, and leads to the row in which 8 is first
    assert [row[:2] for row in count_acceptance([made]).accepted] == [(0, 1), (1, 0)]


def test_the_end_of_the_text_is_told_from_the_end_of_the_tree() -> None:
    for method in ("dflash", "ddtree", "merged", "joint", "nanogpt"):
        assert METHODS[method].lossless
        long = rounds_of(PromptRequest("where does it end", method=method, budget=16, max_tokens=40))
        assert not any(map(ended_by_text, long[:-1]))
    whole = next(made for made in long if len(made.acceptance.keep) > 2)
    keep = whole.acceptance.keep
    short = replace(whole.acceptance, keep=keep[:2], bonus=int(whole.tree.tokens[keep[2]]))
    assert ended_by_text(replace(whole, acceptance=short))
