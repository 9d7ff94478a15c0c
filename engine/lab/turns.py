"""A run and plain decoding of the same prompt, measured in turns: a few rounds of the one, then as many tokens of the
other. What slows the machine for a while so slows both, and the ratio of their speeds stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

import numpy as np
from numpy.typing import NDArray

from engine.lab.findings import speedup_withheld
from engine.lab.statistics import CONFIDENCE, RESAMPLES, SEED
from engine.records import Round

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
