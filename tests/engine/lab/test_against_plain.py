"""A run against plain decoding: interleaved timing gives no false speed-up while the clock is slow, and texts are
compared token by token."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.lab.against_plain import (
    BIASED,
    BUSY,
    DRAWN,
    NEAR_TIE,
    RATIO_ABOVE_TAU,
    SAME,
    SO_FAR,
    TOO_SHORT,
    UNEXPLAINED,
    UNKNOWN,
    InterleavedTiming,
    compare_texts,
    speed_beside_plain,
    turn_pairs,
    unsteady,
)
from engine.lab.reading import WrittenText, text_of
from engine.lab.statistics import estimate
from engine.records import Acceptance, DraftTree, Request, Round, Sampling, Verification

LENGTHS = (3, 1, 4, 2, 2, 3, 1, 2) * 6  # tokens of each round
TOKENS = sum(LENGTHS)


def rounds_with(lengths: Sequence[int], seconds: Sequence[float], drafted: bool = True,
                ids: Sequence[int] = range(10_000)) -> list[Round]:
    """Return rounds that keep ``lengths`` of these tokens, with a chain of four drafted nodes or none."""
    rounds, start = [], 0
    for index, (length, spent) in enumerate(zip(lengths, seconds, strict=True)):
        size = max(5, length) if drafted else 1
        tokens = np.array([*ids[start:start + length], *[9] * (size - length)], np.int32)
        parents = np.maximum(np.arange(size) - 1, 0).astype(np.int32)
        zeros = np.zeros(size, np.float32)
        verification = Verification(tokens, zeros, zeros, zeros + 0.01 * (1 + start), zeros, zeros)
        rounds.append(Round(
            index, start, (), (), DraftTree(tokens, parents, zeros, np.zeros(size, np.int32)), verification,
            Acceptance(np.arange(length, dtype=np.int32), int(ids[start + length])), {"verify": spent}))
        start += length
    return rounds


def plain_rounds(seconds: Sequence[float], ids: Sequence[int] = range(10_000)) -> list[Round]:
    return rounds_with([1] * len(seconds), seconds, drafted=False, ids=ids)


STEADY = [0.02] * TOKENS
RUN_STEADY = [0.03] * len(LENGTHS)
RUN, PLAIN = rounds_with(LENGTHS, RUN_STEADY), plain_rounds(STEADY)
TRUE_RATIO = TOKENS * 0.02 / (len(LENGTHS) * 0.03)


def test_interleaved_pairs_hold_the_same_tokens_and_lose_none() -> None:
    timing = InterleavedTiming(iter(RUN), iter(PLAIN))
    while timing.advance():
        assert sum(len(round_.acceptance.keep) for round_ in timing.rounds) == len(timing.plain)
    assert (timing.rounds, timing.plain) == (RUN, PLAIN)
    turns = turn_pairs(timing.rounds, timing.plain)
    assert sum(pair.tokens for pair in turns) == TOKENS and min(pair.tokens for pair in turns) >= 4
    assert sum(pair.seconds for pair in turns) == pytest.approx(sum(RUN_STEADY))
    assert sum(pair.plain_seconds for pair in turns) == pytest.approx(sum(STEADY))
    for run, plain in ((RUN[:5], PLAIN[:40]), (RUN, PLAIN[:10])):  # one of the texts ends first
        timing = InterleavedTiming(iter(run), iter(plain))
        while timing.advance():
            pass
        assert (timing.rounds, timing.plain) == (run, plain)


HALF = TOKENS // 2
BOTH_SLOWED = ([0.03 if round_.start < HALF else 0.036 for round_ in RUN], [0.02] * HALF + [0.024] * (TOKENS - HALF))


@pytest.mark.parametrize(("run_seconds", "plain_seconds", "withheld"), [
    *((RUN_STEADY, [0.06] * slow + [0.02] * (TOKENS - slow), slow > 20) for slow in (0, 4, 10, 20, 40, 60)),
    (*BOTH_SLOWED, False)])
def test_a_machine_that_was_slow_for_a_while_gives_no_false_speed_up(
        run_seconds: list[float], plain_seconds: list[float], withheld: bool) -> None:
    run = rounds_with(LENGTHS, run_seconds)
    speed = speed_beside_plain(turn_pairs(run, plain_rounds(plain_seconds)), run)
    assert bool(speed.withheld) == withheld
    if not withheld:
        low, high = map(float, speed.range.split(" to "))
        assert low < speed.ratio == float(speed.speed) / float(speed.plain_speed) < high
        assert speed.ratio == pytest.approx(TRUE_RATIO, rel=0.05)


@pytest.mark.parametrize(("run", "plain_seconds", "busy", "reason"), [
    ([*rounds_with([3] * 3, [0.03] * 3), *PLAIN[:77]], 0.02, False, "Only 3 of 80 rounds"),
    (PLAIN[:80], 0.02, False, "No round verified"),
    (RUN, 0.1, False, RATIO_ABOVE_TAU), (RUN, 0.02, True, BUSY), (RUN[:6], 0.02, False, TOO_SHORT)])
def test_an_implausible_or_uncertain_ratio_is_withheld(
        run: list[Round], plain_seconds: float, busy: bool, reason: str) -> None:
    turns = turn_pairs(RUN[:6] if reason == TOO_SHORT else RUN, plain_rounds([plain_seconds] * TOKENS))
    assert reason in speed_beside_plain(turns, run, busy=busy).withheld


@pytest.mark.parametrize(("seconds", "slower"), [(0.03, False), (0.5, True)])
def test_few_turns_show_only_that_a_run_is_far_slower(seconds: float, slower: bool) -> None:
    run = rounds_with(LENGTHS[:8], [seconds] * 8)
    speed = speed_beside_plain(turn_pairs(run, plain_rounds([0.02] * TOKENS)), run)
    assert bool(speed.withheld) != slower
    if slower:
        low, high = map(float, speed.range.split(" to "))
        assert low <= speed.ratio <= high < 0.5


@pytest.mark.parametrize(("prompts", "slow", "busy"), [
    (13, 1, False), (13, 6, True), (5, 1, True), (100, 39, False), (100, 40, True)])
def test_a_slow_prompt_shows_a_busy_machine_only_among_few_prompts(prompts: int, slow: int, busy: bool) -> None:
    speeds = [100.0] * (prompts - slow) + [60.0] * slow
    assert unsteady(estimate(speeds)) == busy


def asked(temperature: float = 0.0, method: str = "ddtree", **sampling: Any) -> Request:
    return Request((1,), method=method, sampling=Sampling(temperature, **sampling))


TEXT = text_of(PLAIN)
OTHER = text_of(rounds_with(LENGTHS, RUN_STEADY, ids=[*range(7), *range(70, 70 + TOKENS)]))  # differs after 7 tokens


def without_gaps(text: WrittenText) -> WrittenText:
    return replace(text, gaps=(float("nan"),) * len(text.gaps))


@pytest.mark.parametrize(("run", "plain", "verdict", "same"), [
    (RUN, PLAIN, SAME, TOKENS), (RUN, PLAIN[:40], SO_FAR, 40), (RUN[:3], PLAIN, SAME, sum(LENGTHS[:3]))])
def test_the_verdict_covers_only_the_compared_tokens(
        run: list[Round], plain: list[Round], verdict: str, same: int) -> None:
    comparison = compare_texts(text_of(run), text_of(plain), asked(), "float32")
    assert (comparison.verdict, comparison.same, comparison.difference) == (verdict, same, None)


@pytest.mark.parametrize(("text", "plain", "request_", "dtype", "verdict"), [
    (OTHER, TEXT, asked(), "bfloat16", NEAR_TIE),
    (OTHER, TEXT, asked(), "float32", UNEXPLAINED),
    (OTHER, TEXT, asked(0.7), "bfloat16", UNKNOWN),
    (OTHER, TEXT, asked(presence_penalty=1.0), "float32", UNKNOWN),  # gaps are of the logits before penalties
    (OTHER, TEXT, asked(0.7, "nanogpt"), "bfloat16", DRAWN),
    (OTHER, TEXT, asked(method="nanogpt_ratio"), "float32", BIASED),
    (OTHER, without_gaps(TEXT), asked(), "bfloat16", NEAR_TIE),  # the run's gap alone
    (without_gaps(OTHER), without_gaps(TEXT), asked(), "bfloat16", UNKNOWN)])
def test_a_difference_is_explained_by_the_larger_gap_at_its_position(
        text: WrittenText, plain: WrittenText, request_: Request, dtype: str, verdict: str) -> None:
    comparison = compare_texts(text, plain, request_, dtype)
    assert (comparison.verdict, comparison.same) == (verdict, 7)
    assert comparison.difference and comparison.difference.position == 7


def test_a_difference_names_its_tokens_and_gap_at_any_position() -> None:
    at_once = compare_texts(text_of(plain_rounds(STEADY, range(1, 10_000))), TEXT, asked(), "bfloat16")
    within = compare_texts(OTHER, TEXT, asked(), "bfloat16")
    ended = replace(text_of(PLAIN[:20]), bonus=5)
    at_its_end = compare_texts(text_of(RUN), ended, asked(), "float32")
    differences = [comparison.difference for comparison in (at_once, within, at_its_end) if comparison.difference]
    assert [(difference.position, difference.token, difference.baseline_token) for difference in differences] == [
        (0, 1, 0), (7, 70, 7), (20, 20, 5)]
    assert differences[0].gap is None
    assert [difference.gap for difference in differences[1:]] == pytest.approx([0.07, 0.2])
    assert at_its_end.verdict == UNEXPLAINED
