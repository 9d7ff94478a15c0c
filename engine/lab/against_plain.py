"""Compares a run with plain decoding of the same prompt: where the texts differ and why, and how fast both are.

They are timed interleaved, a few rounds of the run and then as many tokens of plain decoding, so that a machine that is
slow for a while slows both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, inf, isnan, log
from statistics import median

import numpy as np

from engine.decoding.methods import METHODS
from engine.lab.reading import WrittenText
from engine.lab.speed import SpeedRecord, rate_text, speed_record
from engine.lab.statistics import Estimate, bootstrap_interval
from engine.records import Request, Round

# How far rounding can move the gap between the target's two best tokens. The largest seen (LOG.md): 5e-5 in float32,
# 0.31 in bfloat16, whose logits from 16 to 32 are 0.125 apart; the rest is room for larger models.
FINE_ROUNDING_NATS, COARSE_ROUNDING_NATS = 1e-3, 0.5
FINE_DTYPES = ("float32", "int4")  # the others have 16 bits or fewer

MAX_PRINTED_RATIO = 1000  # of likelihoods

SAME, SO_FAR = "same", "so far"  # all tokens are equal; all that plain decoding has written so far
NEAR_TIE, UNEXPLAINED, UNKNOWN = "near-tie", "unexplained", "unknown"  # why they differ, or that this is not known
DRAWN, BIASED = "drawn", "biased"  # they may differ: the method draws on its own, or is biased


@dataclass(frozen=True)
class Difference:
    """The first position at which two texts differ, the token of each, and the ``widest_gap`` there."""

    position: int
    token: int
    baseline_token: int
    gap: float | None


def first_difference(text: WrittenText, baseline: WrittenText) -> Difference | None:
    """Return the first difference of two texts, the token after an early end included; None if they are equal."""
    if tuple(text.token_ids) == tuple(baseline.token_ids):
        return None
    pairs = zip(*((*side.token_ids, side.bonus) for side in (text, baseline)), strict=False)
    for position, (token, baseline_token) in enumerate(pairs):
        if token != baseline_token:
            gap = widest_gap((text, position), (baseline, position))
            return Difference(position, token, baseline_token, gap)
    return None


def widest_gap(*chosen: tuple[WrittenText, int]) -> float | None:
    """Return the widest recorded gap, in nats, between the target's two best tokens at these positions, or None."""
    gaps = [text.gaps[position - 1] for text, position in chosen if 0 < position <= len(text.gaps)]
    return max((gap for gap in gaps if not isnan(gap)), default=None)


@dataclass(frozen=True)
class TextComparison:
    """A run's text compared with plain decoding's: the first ``same`` of its ``tokens`` tokens are equal."""

    verdict: str
    same: int
    tokens: int
    difference: Difference | None = None

    def why(self, temperature: float, dtype: str) -> str:
        gap = self.difference.gap if self.difference else None
        return verdict_words(self.verdict, temperature, gap, dtype)


def compare_texts(text: WrittenText, plain: WrittenText, request: Request, dtype: str) -> TextComparison:
    """Compare a run's text with as much of plain decoding's as is written; both were made in ``dtype``."""
    tokens, difference = len(text.token_ids), first_difference(text, plain)
    if difference is None:
        same = min(tokens, len(plain.token_ids))
        return TextComparison(SAME if same == tokens else SO_FAR, same, tokens)
    why = verdict([request], difference.gap, rounding_nats(dtype))
    return TextComparison(why, min(difference.position, tokens), tokens, difference)


RULE = ("At temperature 0 two texts of one model may differ if its two best tokens are within rounding error of each "
        f"other: up to {exp(FINE_ROUNDING_NATS):.4g} times as likely in float32 and int4, "
        f"{exp(COARSE_ROUNDING_NATS):.3g} times in 16 bits; of two precisions the coarser counts. If every run that "
        "recorded the gap is within that, the difference is a near-tie; if one has a wider gap, rounding does not "
        "explain it: look for a bug. Texts sampled at a temperature prove nothing.")


def verdict(requests: Sequence[Request], gap: float | None, rounding: float) -> str:
    """Return why the texts of these requests differ, by the widest gap; see ``RULE``.

    A gap explains only greedy choices by the model's own logits, because rounding can change a sampled token at any
    gap.
    """
    methods = [METHODS.get(request.method) for request in requests]
    if any(method and not method.lossless for method in methods):
        return BIASED
    if any(request.sampling.temperature > 0 for request in requests):
        return UNKNOWN if all(method and method.follows_text for method in methods) else DRAWN
    if gap is None or any(request.sampling.adjusts for request in requests):
        return UNKNOWN
    return NEAR_TIE if gap <= rounding else UNEXPLAINED


def verdict_words(why: str, temperature: float, gap: float | None, dtype: str) -> str:
    """Put a verdict in a sentence; ``gap`` is the widest known one."""
    if why == BIASED:
        return "This method is biased: its text is not always what the big model alone would write."
    if why == DRAWN:
        return (f"Both were sampled at temperature {temperature:g}. This method uses random draws of its own, so its "
                "text differs, with the same distribution.")
    if temperature > 0:
        return f"Both were sampled at temperature {temperature:g}; how near the draw was to the other token is unknown."
    if gap is None or why == UNKNOWN:
        return "How near the two tokens were for the big model is unknown."
    near = f"For the big model {likelihood_ratio_text(gap)}"
    if why == NEAR_TIE:
        return f"{near}: a near-tie, which rounding in {dtype} may turn."
    return f"{near}, which rounding in {dtype} does not explain: look for a bug."


def likelihood_ratio_text(gap_nats: float) -> str:
    """Put a gap between two log probabilities in words: how many times as likely one token is."""
    times = exp(min(abs(gap_nats), log(MAX_PRINTED_RATIO)))
    if times == MAX_PRINTED_RATIO:
        return f"one was more than {MAX_PRINTED_RATIO:,} times as likely as the other"
    digits = 3 if times >= 1.01 else 5
    return "both were equally likely" if times < 1.00001 else f"one was {times:.{digits}g} times as likely as the other"


def near_tie_text(text: WrittenText, rounding: float) -> str:
    """Count the near-ties of a text in a sentence; "" if gaps were not recorded."""
    gaps = [gap for gap in text.gaps if not isnan(gap)]
    near = sum(gap <= rounding for gap in gaps)
    return f"Of {len(gaps)} places of this text {near} are as near." if gaps else ""


def rounding_nats(dtype: str) -> float:
    """Return the widest gap between two tokens that rounding can turn, in nats."""
    return FINE_ROUNDING_NATS if dtype in FINE_DTYPES else COARSE_ROUNDING_NATS


MAX_STEADY_SPREAD = 0.35  # fraction of the median; plain decoding's speeds hardly depend on the prompt


def unsteady(plain: Estimate) -> bool:
    """Return whether plain decoding's speeds show a busy machine. With 6 to 8 prompts one slow prompt shows it; with
    many, about a third have to be slow (28 of 72 show it, 3 of 13)."""
    low, high = plain.span
    return high - low > MAX_STEADY_SPREAD * plain.median


BUSY = "Other programs used this machine meanwhile, so no speed-up is reported."
RATIO_ABOVE_TAU = (
    "The measured ratio is larger than the tokens that a round adds, which no tree can reach: plain decoding was "
    "delayed while it was measured.")
TOO_SHORT = "The text is too short for a speed-up with a range."


def speedup_withheld(tau: float, ratio: float, drafted_rounds: int, rounds: int, busy: bool = False) -> str:
    """Return why no speed-up may be reported, or "". A ratio above ``tau`` cannot be true: no round is faster than a
    plain pass."""
    if not rounds or not drafted_rounds:
        return "No round verified a draft, so there is no speed-up."
    if 2 * drafted_rounds < rounds:
        return (f"Only {drafted_rounds} of {rounds} rounds verified a draft, so the run was mostly plain decoding, and "
                "a ratio to it would be chance.")
    if busy:
        return BUSY
    return RATIO_ABOVE_TAU if ratio > tau else ""


MIN_TURN_TOKENS = 4
MIN_TURNS = 6  # fewer give no confidence interval
MIN_CLEAR_TURNS, CLEARLY_SLOWER = 3, 0.5  # but if so many all have such a ratio or less, the run is slower
SETTLING_TURNS = 1  # warm-up, not counted
MAX_PACE_RATIO = 1.25  # turns in which plain decoding is off its median pace by more are not counted
MAX_DELAYED = 0.25  # fraction of turns not counted; above it, the machine was busy


class InterleavedTiming:
    """Alternates between the rounds of a run and of plain decoding."""

    def __init__(self, rounds: Iterator[Round], plain: Iterator[Round]) -> None:
        self._sources = rounds, plain
        self.rounds: list[Round] = []
        self.plain: list[Round] = []
        self._tokens = [0, 0]

    def advance(self) -> bool:
        """Take one turn of each side. Return False when both have ended; the longer text continues alone."""
        written, plain = self._tokens
        self._read_to(0, self.rounds, written + MIN_TURN_TOKENS)
        over = self._tokens[0] == written
        self._read_to(1, self.plain, plain + MIN_TURN_TOKENS if over else self._tokens[0])
        return not over or self._tokens[1] > plain

    @property
    def pairs(self) -> list[TurnPair]:
        return turn_pairs(self.rounds, self.plain)

    def _read_to(self, side: int, rounds: list[Round], tokens: int) -> None:
        while self._tokens[side] < tokens and (round_ := next(self._sources[side], None)):
            rounds.append(round_)
            self._tokens[side] += len(round_.acceptance.keep)


@dataclass(frozen=True)
class TurnPair:
    """The seconds that both sides took for the same ``tokens`` tokens, which end at position ``end``."""

    tokens: int
    seconds: float
    plain_seconds: float
    end: int


def turn_pairs(rounds: Sequence[Round], plain: Sequence[Round]) -> list[TurnPair]:
    """Pair the turns of two runs of one prompt, each of ``MIN_TURN_TOKENS`` or more; a remainder joins the last."""
    ends, clock = cumulative_times(rounds)
    plain_at = dict(zip(*cumulative_times(plain), strict=True))
    marks = [(0, 0.0, 0.0)]
    for end, now in zip(ends, clock, strict=True):
        if end in plain_at and (end - marks[-1][0] >= MIN_TURN_TOKENS or end == ends[-1]):
            rest = end - marks[-1][0] < MIN_TURN_TOKENS and len(marks) > 1
            marks[len(marks) - rest:] = [(end, now, plain_at[end])]
    return [TurnPair(end - begin, now - then, plain_now - plain_then, end)
            for (begin, then, plain_then), (end, now, plain_now) in pairwise(marks)]


def cumulative_times(rounds: Sequence[Round]) -> tuple[list[int], list[float]]:
    """Return cumulative tokens and cumulative engine seconds by round."""
    return (list(accumulate(len(round_.acceptance.keep) for round_ in rounds)),
            list(accumulate(sum(round_.seconds.values()) for round_ in rounds)))


def speed_beside_plain(turns: Sequence[TurnPair], run: Sequence[Round], busy: bool = False) -> SpeedRecord:
    """Return the speeds over the turns, without warm-up and turns in which plain decoding was delayed. The range of few
    turns, all far slower than plain decoding, is theirs."""
    timed = [pair for pair in turns[SETTLING_TURNS:] if pair.seconds > 0 and pair.plain_seconds > 0]
    pace = median([pair.plain_seconds / pair.tokens for pair in timed]) if timed else 0.0
    steady = [pair for pair in timed if 1 / MAX_PACE_RATIO <= pair.plain_seconds / pair.tokens / pace <= MAX_PACE_RATIO]
    busy = busy or len(timed) - len(steady) > MAX_DELAYED * len(timed)
    tokens = sum(len(round_.acceptance.keep) for round_ in run)
    drafted = sum(len(round_.tree) > 1 for round_ in run)
    is_slower = len(steady) == len(timed) >= MIN_CLEAR_TURNS and all(
        pair.plain_seconds <= CLEARLY_SLOWER * pair.seconds for pair in timed)
    if not run or (len(timed) < MIN_TURNS and not is_slower):
        withheld = speedup_withheld(inf, 1.0, drafted, len(run)) or TOO_SHORT
        return SpeedRecord(own_rate(run), withheld=withheld)
    figures = np.array([[pair.tokens, pair.seconds, pair.plain_seconds] for pair in steady or timed])
    count, seconds, plain_seconds = figures.sum(0).tolist()
    if withheld := speedup_withheld(tokens / len(run), plain_seconds / seconds, drafted, len(run), busy):
        return SpeedRecord(own_rate(run), withheld=withheld, again=withheld in (BUSY, RATIO_ABOVE_TAU))
    ratios = figures[:, 2] / figures[:, 1]
    low, high = bootstrap_interval(figures, lambda sums: sums[:, 2] / sums[:, 1]) if len(timed) >= MIN_TURNS else (
        float(ratios.min()), float(ratios.max()))
    return speed_record(count / seconds, count / plain_seconds, low, high)


def own_rate(run: Sequence[Round]) -> str:
    """Return tokens per second over the timed rounds, as printed; "" if none is timed."""
    timed = [round_ for round_ in run if round_.seconds]
    seconds = sum(sum(round_.seconds.values()) for round_ in timed)
    return rate_text(sum(len(round_.acceptance.keep) for round_ in timed) / seconds) if seconds > 0 else ""
