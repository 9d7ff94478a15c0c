"""A run and plain decoding of the same prompt, measured in turns: a few rounds of the one, then as many tokens of the
other. What slows the machine for a while so slows both, and the ratio of their speeds stands.

Their texts are compared too: where they part, how close the target's choice was there, and whether the rounding of the
precision explains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isnan
from statistics import median
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from engine.decoding.methods import METHODS
from engine.lab.findings import speedup_withheld
from engine.lab.settings import Reading
from engine.lab.statistics import CONFIDENCE, RESAMPLES, SEED
from engine.records import Request, Round

TURN_TOKENS = 4  # of the run, at least
LEAST_TURNS = 6  # that count; fewer give no range
SETTLING_TURNS = 1  # at the beginning, in which caches and clocks settle: not counted
HELD_UP = 1.25  # times its median pace, or that much faster: a turn of plain decoding that does not count
MOST_HELD_UP = 0.25  # of the turns; with more the machine was busy


@dataclass(frozen=True)
class TurnPair:
    """One turn of each: the same number of tokens, and the seconds that either took for them."""

    tokens: int
    seconds: float
    plain_seconds: float


@dataclass(frozen=True)
class SpeedRatio:
    """How fast a run was beside plain decoding. ``low`` and ``high`` bound the ratio at 95 % by resampling turns. Both
    speeds, in tokens a second, are of the same turns. ``withheld``: why none of it is to be said, empty where it is."""

    speed: float = 0.0
    plain_speed: float = 0.0
    low: float = 0.0
    high: float = 0.0
    withheld: str = ""

    @property
    def ratio(self) -> float:
        """The run's speed divided by plain decoding's; 0 where nothing was timed."""
        return self.speed / self.plain_speed if self.plain_speed else 0.0


class TurnTaking:
    """Makes the rounds of a run and of plain decoding in turns."""

    def __init__(self, rounds: Iterator[Round], plain: Iterator[Round]) -> None:
        self._sources = rounds, plain
        self.rounds: list[Round] = []
        self.plain: list[Round] = []
        self._tokens = [0, 0]

    def turn(self) -> bool:
        """One turn of each; False once both have ended. Where one text ends first, the other goes on alone."""
        written, plain = self._tokens
        self._advance(0, self.rounds, written + TURN_TOKENS)
        over = self._tokens[0] == written
        self._advance(1, self.plain, plain + TURN_TOKENS if over else self._tokens[0])
        return not over or self._tokens[1] > plain

    def _advance(self, side: int, rounds: list[Round], tokens: int) -> None:
        while self._tokens[side] < tokens and (round_ := next(self._sources[side], None)):
            rounds.append(round_)
            self._tokens[side] += len(round_.acceptance.keep)


def turn_pairs(rounds: Sequence[Round], plain: Sequence[Round]) -> list[TurnPair]:
    """The turns of two runs of the same prompt, as ``TurnTaking`` makes them: every ``TURN_TOKENS`` or more tokens of
    the first beside as many of the second, as far as both go. A rest at the end belongs to the last."""
    ends, clock = moments(rounds)
    plain_ends, plain_clock = moments(plain)
    plain_at = dict(zip(plain_ends, plain_clock, strict=True))
    marks = [(0, 0.0, 0.0)]
    for end, now in zip(ends, clock, strict=True):
        if end in plain_at and (end - marks[-1][0] >= TURN_TOKENS or end == ends[-1]):
            rest = end - marks[-1][0] < TURN_TOKENS and len(marks) > 1
            marks[len(marks) - rest:] = [(end, now, plain_at[end])]
    return [TurnPair(end - begin, now - then, plain_now - plain_then)
            for (begin, then, plain_then), (end, now, plain_now) in zip(marks, marks[1:], strict=False)]


def moments(rounds: Sequence[Round]) -> tuple[list[int], list[float]]:
    """The tokens after each round, and the seconds of engine time."""
    return (list(accumulate(len(round_.acceptance.keep) for round_ in rounds)),
            list(accumulate(sum(round_.seconds.values()) for round_ in rounds)))


def speed_ratio(turns: Sequence[TurnPair], run: Sequence[Round], busy: bool = False) -> SpeedRatio:
    """The ratio over the turns, the first of which do not count. A turn in which plain decoding was held up does not
    count either: it takes equally long for every token. ``run`` are the rounds that the ratio is said of."""
    timed = [pair for pair in turns[SETTLING_TURNS:] if pair.seconds > 0 and pair.plain_seconds > 0]
    pace = median([pair.plain_seconds / pair.tokens for pair in timed]) if timed else 0.0
    steady = [pair for pair in timed if 1 / HELD_UP <= pair.plain_seconds / pair.tokens / pace <= HELD_UP]
    busy = busy or len(timed) - len(steady) > MOST_HELD_UP * len(timed)
    tokens = sum(len(round_.acceptance.keep) for round_ in run)
    drafted = sum(len(round_.tree) > 1 for round_ in run)
    if len(timed) < LEAST_TURNS or not run:
        few = "The text is too short for a speed-up with a range."
        return SpeedRatio(withheld=speedup_withheld(float("inf"), 1.0, drafted, len(run)) or few)
    figures = np.array([[pair.tokens, pair.seconds, pair.plain_seconds] for pair in steady or timed])
    count, seconds, plain_seconds = figures.sum(0).tolist()
    withheld = speedup_withheld(tokens / len(run), plain_seconds / seconds, drafted, len(run), busy)
    return SpeedRatio(count / seconds, count / plain_seconds, *_interval(figures[:, 1:]), withheld or "")


def _interval(seconds: NDArray[np.float64]) -> tuple[float, float]:
    """The interval of the ratio at 95 % from seconds (turns, 2), the run's and plain decoding's, by resampling whole
    turns; the same every time."""
    drawn = np.random.default_rng(SEED).integers(0, len(seconds), (RESAMPLES, len(seconds)))
    sums = seconds[drawn].sum(1)
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(sums[:, 1] / sums[:, 0], [outside, 1 - outside])
    return float(low), float(high)


# How far rounding moves the gap between the target's two best tokens, where the same text is verified among more rows.
# The largest that was seen (LOG.md): 5e-5 in float32; 0.31 in bfloat16, whose logits from 16 to 32 are 0.125 apart. The
# rest is room for larger models and logits.
ROUNDING_NATS: Mapping[str, float] = MappingProxyType({"float32": 1e-3, "int4": 1e-3, "bfloat16": 0.5})
COARSEST = "bfloat16"  # stands for any other precision of 16 bits or fewer

SAME, SO_FAR = "same", "so far"  # of all tokens of the run; of those that plain decoding has written
NEAR_TIE, UNEXPLAINED, UNKNOWN = "near-tie", "unexplained", "unknown"  # why they part; unknown: the gap is
DRAWN, BIASED = "drawn", "biased"  # they part, as this method may: it draws on its own, or is biased


@dataclass(frozen=True)
class Text:
    """What a run wrote, with the meaning that these have in ``Reading``."""

    token_ids: Sequence[int]
    gaps: Sequence[float]
    bonus: int


Written = Text | Reading


def text_of(rounds: Iterable[Round]) -> Text:
    """What these rounds wrote."""
    token_ids: list[int] = []
    gaps: list[float] = []
    bonus = -1
    for round_ in rounds:
        token_ids += round_.committed.tolist()
        gaps += round_.verification.gap[round_.acceptance.keep].tolist()
        bonus = int(round_.acceptance.bonus)
    return Text(token_ids, gaps, bonus)


@dataclass(frozen=True)
class Difference:
    """The first place in the text, counted from 0, where the two differ: the token of each, and the gap in nats between
    the target's first and second token there (of the baseline's run; None at place 0, which the prefill chose, and
    where it was not recorded)."""

    place: int
    token: int
    baseline_token: int
    gap: float | None


def first_difference(reading: Written, baseline: Written) -> Difference | None:
    """The first difference of two texts; None if they are the same. A text that ends early differs in the token that
    would have followed, if there is one."""
    if tuple(reading.token_ids) == tuple(baseline.token_ids):
        return None
    ours, theirs = ((*text.token_ids, text.bonus) for text in (reading, baseline))
    pairs = enumerate(zip(ours, theirs, strict=False))
    place = next((place for place, (one, other) in pairs if one != other), None)
    if place is None:
        return None
    gap = baseline.gaps[place - 1] if place else None
    return Difference(place, ours[place], theirs[place], None if gap is None or isnan(gap) else gap)


@dataclass(frozen=True)
class TextComparison:
    """A run's text against plain decoding's: the first ``same`` of its ``tokens`` are the same; ``verdict`` is one of
    the constants above, ``difference`` is where they part."""

    verdict: str
    same: int
    tokens: int
    difference: Difference | None = None


def compared(text: Written, plain: Written, request: Request, dtype: str) -> TextComparison:
    """The run's text against as much of plain decoding's as there is, both in precision ``dtype``; ``request`` is the
    run's."""
    tokens, difference = len(text.token_ids), first_difference(text, plain)
    if difference is None:
        same = min(tokens, len(plain.token_ids))
        return TextComparison(SAME if same == tokens else SO_FAR, same, tokens)
    return TextComparison(_why(difference, request, dtype), min(difference.place, tokens), tokens, difference)


def _why(difference: Difference, request: Request, dtype: str) -> str:
    """Why the texts part. A draw that lies between two tokens may be turned by rounding however far these are apart, so
    a gap explains only what was chosen at temperature 0."""
    method = METHODS.get(request.method)
    if method and not method.lossless:
        return BIASED
    if request.sampling.temperature > 0:
        return UNKNOWN if method and method.follows_text else DRAWN
    if difference.gap is None:
        return UNKNOWN
    return NEAR_TIE if difference.gap <= rounding_nats(dtype) else UNEXPLAINED


def rounding_nats(dtype: str) -> float:
    """How far rounding may move the gap between two tokens in that precision, in nats: a smaller one is a near-tie."""
    return ROUNDING_NATS.get(dtype, ROUNDING_NATS[COARSEST])
