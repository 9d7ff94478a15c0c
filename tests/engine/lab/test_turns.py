"""Speeds measured in turns: a clock that is wrong for a while gives no false speed-up, and texts are compared token by
token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from engine.lab.parting import BIASED, DRAWN, NEAR_TIE, SAME, SO_FAR, UNEXPLAINED, UNKNOWN, Text, compared, text_of
from engine.lab.turns import TurnTaking, speed_ratio, turn_pairs
from engine.records import Acceptance, DraftTree, Request, Round, Sampling, Verification

LENGTHS = (3, 1, 4, 2, 2, 3, 1, 2) * 6  # tokens of each round
TOKENS = sum(LENGTHS)


def rounds(lengths: Sequence[int], seconds: Sequence[float], drafted: bool = True, ids: Sequence[int] = ()) -> list[
        Round]:
    """Rounds of a chain of four drafted nodes, or of none, that keep so many tokens; token i is i."""
    made, start = [], 0
    ids = ids or range(10_000)
    for index, (length, spent) in enumerate(zip(lengths, seconds, strict=True)):
        size = max(5, length) if drafted else 1
        tokens = np.array([*ids[start:start + length], *[9] * (size - length)], np.int32)
        parents = np.maximum(np.arange(size) - 1, 0).astype(np.int32)
        zeros = np.zeros(size, np.float32)
        said = Verification(tokens, zeros, zeros, zeros + 0.01 * (1 + start), zeros, zeros)
        made.append(Round(
            index, start, (), (), DraftTree(tokens, parents, zeros, np.zeros(size, np.int32)), said,
            Acceptance(np.arange(length, dtype=np.int32), int(ids[start + length])), {"verify": spent}))
        start += length
    return made


def plain(seconds: Sequence[float], ids: Sequence[int] = ()) -> list[Round]:
    return rounds([1] * len(seconds), seconds, drafted=False, ids=ids)


STEADY = [0.02] * TOKENS
RUN = rounds(LENGTHS, [0.03] * len(LENGTHS))
TRUE = TOKENS * 0.02 / (len(LENGTHS) * 0.03)


def test_turns_hold_the_same_tokens_and_lose_none() -> None:
    taking = TurnTaking(iter(RUN), iter(plain(STEADY)))
    behind = []
    while taking.turn():
        behind.append(sum(len(made.acceptance.keep) for made in taking.rounds) - len(taking.plain))
    assert set(behind) == {0} and (len(taking.rounds), len(taking.plain)) == (len(RUN), TOKENS)
    turns = turn_pairs(taking.rounds, taking.plain)
    assert sum(pair.tokens for pair in turns) == TOKENS and min(pair.tokens for pair in turns) >= 4
    assert sum(pair.seconds for pair in turns) == pytest.approx(len(RUN) * 0.03)
    assert sum(pair.plain_seconds for pair in turns) == pytest.approx(TOKENS * 0.02)


def test_where_one_text_ends_first_the_other_goes_on() -> None:
    taking = TurnTaking(iter(RUN[:5]), iter(plain(STEADY[:40])))
    while taking.turn():
        pass
    assert (len(taking.rounds), len(taking.plain)) == (5, 40)
    taking = TurnTaking(iter(RUN), iter(plain(STEADY[:10])))
    while taking.turn():
        pass
    assert (len(taking.rounds), len(taking.plain)) == (len(RUN), 10)


def test_the_ratio_is_that_of_the_two_speeds() -> None:
    found = speed_ratio(turn_pairs(RUN, plain(STEADY)), RUN)
    assert found.withheld == "" and found.ratio == pytest.approx(TRUE, rel=0.05)
    assert found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(found.speed / found.plain_speed)


@pytest.mark.parametrize("slow", [4, 10, 20, 40, 60])
def test_a_clock_that_was_slow_at_the_beginning_gives_no_false_speed_up(slow: int) -> None:
    forged = plain([0.06] * slow + [0.02] * (TOKENS - slow))
    found = speed_ratio(turn_pairs(RUN, forged), RUN)
    assert found.withheld or found.ratio == pytest.approx(TRUE, rel=0.05)
    assert bool(found.withheld) == (slow > 20)


def test_what_slows_both_for_a_while_changes_nothing() -> None:
    half = TOKENS // 2
    slowed = [0.03 if RUN[index].start < half else 0.036 for index in range(len(RUN))]
    run = rounds(LENGTHS, slowed)
    found = speed_ratio(turn_pairs(run, plain([0.02] * half + [0.024] * (TOKENS - half))), run)
    assert found.withheld == "" and found.ratio == pytest.approx(TRUE, rel=0.05)


@pytest.mark.parametrize(("run", "plain_seconds", "busy", "reason"), [
    ([*rounds([3] * 3, [0.03] * 3), *plain([0.02] * 77)], 0.02, False, "Only 3 of 80 rounds"),
    (plain([0.02] * 80), 0.02, False, "No round verified"),
    (RUN, 0.1, False, "larger than"),
    (RUN, 0.02, True, "Other programs"),
    (RUN[:6], 0.02, False, "too short")])
def test_a_ratio_that_cannot_be_true_or_says_nothing_is_withheld(
        run: list[Round], plain_seconds: float, busy: bool, reason: str) -> None:
    turns = turn_pairs(RUN[:6] if reason == "too short" else RUN, plain([plain_seconds] * TOKENS))
    assert reason in speed_ratio(turns, run, busy=busy).withheld


def asked(temperature: float = 0.0, method: str = "ddtree") -> Request:
    return Request((1,), method=method, sampling=Sampling(temperature=temperature))


def test_the_same_text_is_said_of_what_was_compared() -> None:
    text, whole = text_of(RUN), text_of(plain(STEADY))
    assert compared(text, whole, asked(), "float32").verdict == SAME
    found = compared(text, text_of(plain(STEADY[:40])), asked(), "float32")
    assert (found.verdict, found.same, found.tokens, found.difference) == (SO_FAR, 40, TOKENS, None)
    stopped = compared(text_of(RUN[:3]), whole, asked(), "float32")
    assert (stopped.verdict, stopped.same) == (SAME, sum(LENGTHS[:3]))


def test_another_text_is_explained_by_the_gap_where_it_parts() -> None:
    ids = [*range(7), *range(70, 70 + TOKENS)]
    other = text_of(rounds(LENGTHS, [0.03] * len(LENGTHS), ids=ids))
    plainly = text_of(plain(STEADY))
    found = compared(other, plainly, asked(), "bfloat16")
    assert found.difference and (found.difference.place, found.difference.token, found.difference.baseline_token) == (
        7, 70, 7)
    assert (found.verdict, found.same) == (NEAR_TIE, 7) and found.difference.gap == pytest.approx(0.07)
    assert compared(other, plainly, asked(), "float32").verdict == UNEXPLAINED
    assert compared(other, plainly, asked(0.7), "bfloat16").verdict == UNKNOWN
    assert compared(other, plainly, asked(0.7, "nanogpt"), "bfloat16").verdict == DRAWN
    assert compared(other, plainly, asked(method="nanogpt_ratio"), "float32").verdict == BIASED
    at_once = compared(text_of(plain(STEADY, range(1, 10_000))), plainly, asked(), "bfloat16")
    assert at_once.difference and (at_once.difference.place, at_once.difference.gap) == (0, None)
    unknown = Text(plainly.token_ids, [float("nan")] * TOKENS, plainly.bonus)
    assert compared(other, unknown, asked(), "bfloat16").verdict == NEAR_TIE  # by the run's own gap
    silent = Text(other.token_ids, [float("nan")] * TOKENS, other.bonus)
    assert compared(silent, unknown, asked(), "bfloat16").verdict == UNKNOWN


def test_a_text_that_goes_on_where_plain_decoding_ends_differs_in_its_end() -> None:
    ended = text_of(plain(STEADY[:20]))
    found = compared(text_of(RUN), replace(ended, bonus=5), asked(), "float32")
    assert found.difference and found.difference.place == 20 and found.verdict == UNEXPLAINED
