"""Histogram, calibration, intervals, expected lengths, and acceptance by depth and rank, against brute force and values
worked out by hand."""

from collections import defaultdict
from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given

from engine.decoding.tree import path_to
from engine.lab.reading import COUNTED_RANKS, Reading, count_acceptance, ended_by_text, expected_length
from engine.lab.statistics import (
    acceptance,
    calibration,
    calibration_pairs,
    estimate,
    histogram,
    interval_rank,
    mean_of,
    share_of,
)
from engine.records import DraftTree, Lattice, Round, Sampling
from engine.trace import committed_ids, tau
from tests.engine.helpers import trees
from tests.engine.lab.scripted import rounds_of, scripted_reading


def test_a_reading_holds_the_values_of_the_rounds() -> None:
    rounds = rounds_of("a prompt", "merged", budget=12, max_tokens=40)
    reading, last = scripted_reading(rounds), rounds[-1]
    assert list(reading.token_ids) == committed_ids(rounds) and len(reading.gaps) == 40
    assert reading.tau == pytest.approx(tau(rounds))
    assert reading.prefill_seconds == pytest.approx(5e-3)
    assert reading.seconds == pytest.approx(sum(1e-3 + 1e-5 * len(round_.tree) for round_ in rounds))
    assert reading.stage_seconds["verify"] == pytest.approx(reading.seconds)
    assert reading.tokens_per_second == pytest.approx(40 / reading.seconds)
    assert reading.rows == tuple(len(round_.tree) for round_ in rounds)
    assert reading.gaps[-1] == last.verification.gap[last.acceptance.keep[-1]]


@pytest.mark.parametrize("max_tokens", range(20, 32))
def test_a_round_cut_by_the_texts_end_is_left_out_of_calibration(max_tokens: int) -> None:
    rounds = rounds_of("a prompt", budget=24, max_tokens=max_tokens)
    whole = rounds_of("a prompt", budget=24, max_tokens=60)[len(rounds) - 1]
    cut = len(rounds[-1].acceptance.keep) < len(whole.acceptance.keep)
    reading = scripted_reading(rounds)
    assert reading.cut == cut
    assert reading.acceptance.reached[0] == len(calibration_pairs(reading)) == len(rounds) - cut
    assert sum(histogram([reading])) == len(rounds)


def test_a_run_without_a_round_gives_an_empty_reading() -> None:
    empty = scripted_reading([])
    assert (empty.rounds, empty.tau, empty.tokens_per_second, empty.bonus, empty.cut) == (0, 0, 0, -1, False)
    assert calibration([empty]) is None and acceptance([empty]) == ()


def reading_with(expected: list[float], lengths: list[int], **changes: object) -> Reading:
    """Return a reading with these lengths and arbitrary other values."""
    given_ = {"expected": tuple(expected), "lengths": tuple(lengths), "rows": (9,) * len(lengths), **changes}
    return replace(scripted_reading([]), **given_)  # type: ignore[arg-type]


def test_calibration_shows_an_overconfident_drafter() -> None:
    random = np.random.default_rng(0)
    promised = random.uniform(1, 9, 4000)
    kept = 1 + random.poisson((promised - 1) / 2)
    known = calibration([reading_with(promised.tolist(), kept.tolist())])
    assert known is not None and known.excess == pytest.approx(2, rel=0.05)
    assert [bin_.rounds for bin_ in known.bins] == [400] * 10
    assert sorted(known.bins, key=lambda bin_: bin_.expected) == list(known.bins)
    for bin_ in known.bins:
        assert bin_.low is not None and bin_.high is not None and bin_.low < bin_.realised < bin_.high
        assert bin_.realised == pytest.approx(1 + (bin_.expected - 1) / 2, abs=0.4)


def test_calibration_leaves_out_cut_rounds_and_rounds_without_a_draft() -> None:
    assert calibration_pairs(reading_with([3.0, 4.0], [2, 1], cut=True)) == [(3.0, 2)]
    assert calibration([reading_with([1.0, 1.0], [1, 1], rows=(1, 1))]) is None
    nothing_taken = calibration([reading_with([3.0], [1])])
    assert nothing_taken is not None and nothing_taken.excess is None
    assert (nothing_taken.bins[0].low, nothing_taken.bins[0].rounds) == (None, 1)


def test_intervals_cover_with_the_stated_probability() -> None:
    for count, rank in ((0, 0), (5, 0), (6, 1), (9, 2), (24, 7), (200, 86)):
        missed = [2 * sum(comb(count, hits) for hits in range(below)) / 2**count for below in (rank, rank + 1)]
        assert interval_rank(count) == rank and missed[0] <= 0.05 and (count < 6 or missed[1] > 0.05)
    few = estimate([3.0, 1.0])
    assert (few.median, few.low, few.high, few.minimum, few.maximum, few.prompts) == (2, None, None, 1, 3, 2)
    share = share_of(8, 10)
    assert (share.low, share.high) == pytest.approx((0.4902, 0.9433), abs=1e-3)  # Wilson's formula
    assert share_of(0, 5).low == 0 < share_of(0, 5).high < 0.5
    mean = mean_of([1.0, 2.0, 3.0])
    assert mean.low < mean.value == 2 < mean.high and mean_of([1.0, 2.0, 3.0]) == mean


def prefix(tree: DraftTree, node: int) -> tuple[int, ...]:
    """Return the tokens on the path from the root to a node, without the root's."""
    return tuple(tree.tokens[path_to(tree.parents, node)[1:]].tolist())


@pytest.mark.slow
@given(trees())
def test_the_expected_length_counts_every_distinct_prefix_once(tree: DraftTree) -> None:
    best: dict[tuple[int, ...], float] = {}
    for node in range(1, len(tree)):
        path = prefix(tree, node)
        best[path] = max(best.get(path, 0), float(np.exp(tree.logprobs[node])))
    assert expected_length(tree) == pytest.approx(1 + sum(best.values()))


def count_slowly(rounds: list[Round]) -> dict[tuple[int, int], list[int]]:
    """Count proposed and accepted nodes by (depth, rank), by the prefixes of single-row lattices."""
    counts: dict[tuple[int, int], list[int]] = {}
    for round_ in rounds:
        kept = tuple(round_.committed[1:].tolist())
        drafters: dict[tuple[int, ...], int] = defaultdict(int)  # a bit mask by prefix
        for node in range(1, len(round_.tree)):
            drafters[prefix(round_.tree, node)] |= int(round_.tree.drafters[node])
        for path, mask in drafters.items():
            if path[:-1] == kept[:len(path) - 1]:
                rank = min(draft.tokens[len(path) - 1, 0].tolist().index(path[-1])
                           for drafter, draft in enumerate(round_.drafts) if mask >> drafter & 1)
                cell = counts.setdefault((len(path), min(rank, COUNTED_RANKS - 1)), [0, 0])
                cell[0] += 1
                cell[1] += path == kept[:len(path)]
    return counts


@pytest.mark.parametrize("method", ["dflash", "ddtree", "routed", "merged", "joint"])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=1)], ids=["greedy", "warm"])
def test_acceptance_equals_a_count_over_prefixes(method: str, sampling: Sampling) -> None:
    rounds = [round_ for round_ in rounds_of("a long walk", method, budget=20, max_tokens=60, sampling=sampling)
              if not ended_by_text(round_)]
    assert len(rounds) > 8
    counts = count_acceptance(rounds)
    assert {(depth, rank): [proposed, counts.accepted[depth - 1][rank]]
            for depth, row in enumerate(counts.proposed, 1) for rank, proposed in enumerate(row) if proposed
            } == count_slowly(rounds)
    halves = [replace(scripted_reading([]), acceptance=count_acceptance(half)) for half in (rounds[:3], rounds[3:])]
    assert acceptance(halves) == acceptance([replace(halves[0], acceptance=counts)])
    lengths = [len(round_.acceptance.keep) for round_ in rounds]
    assert sum(map(sum, counts.accepted)) == sum(lengths) - len(rounds)
    assert counts.reached[:2] == (len(rounds), sum(length > 1 for length in lengths))


def test_a_rank_belongs_to_the_row_that_the_path_leads_to() -> None:
    tokens = np.asarray([[[5, 6], [0, 0]], [[7, 8], [8, 7]]], np.int32)
    follow = np.asarray([[[0, 1], [0, 0]], [[0, 0], [0, 0]]], np.int32)
    lattice = Lattice(tokens, np.full((2, 2, 2), -1, np.float32), follow)
    round_ = rounds_of("x", budget=2, max_tokens=4)[0]
    tree = DraftTree(np.asarray([1, 6, 8], np.int32), np.asarray([0, 0, 1], np.int32),
                     np.asarray([0, -1, -2], np.float32), np.asarray([0, 1, 1], np.int32))
    round_ = replace(round_, drafts=(lattice,), tree=tree, acceptance=replace(
        round_.acceptance, keep=np.asarray([0, 1, 2], np.int32)))
    # 6 has rank 1 in the first row and leads to the row in which 8 has rank 0
    assert [row[:2] for row in count_acceptance([round_]).accepted] == [(0, 1), (1, 0)]
