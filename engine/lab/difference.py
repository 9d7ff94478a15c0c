"""Compares a text with plain decoding's: where they part, how close the target's choice was there, and whether the
rounding of the precision explains it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from types import MappingProxyType

from engine.decoding.methods import METHODS
from engine.lab.settings import Reading
from engine.records import Request, Round

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
    for made in rounds:
        token_ids += made.committed.tolist()
        gaps += made.verification.gap[made.acceptance.keep].tolist()
        bonus = int(made.acceptance.bonus)
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
    ours, theirs = ((*each.token_ids, each.bonus) for each in (reading, baseline))
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
    tokens, found = len(text.token_ids), first_difference(text, plain)
    if found is None:
        same = min(tokens, len(plain.token_ids))
        return TextComparison(SAME if same == tokens else SO_FAR, same, tokens)
    return TextComparison(_why(found, request, dtype), min(found.place, tokens), tokens, found)


def _why(found: Difference, request: Request, dtype: str) -> str:
    """Why the texts part. A draw that lies between two tokens may be turned by rounding however far these are apart, so
    a gap explains only what was chosen at temperature 0."""
    method = METHODS.get(request.method)
    if method and not method.lossless:
        return BIASED
    if request.sampling.temperature > 0:
        return UNKNOWN if method and method.follows_text else DRAWN
    if found.gap is None:
        return UNKNOWN
    return NEAR_TIE if found.gap <= rounding_nats(dtype) else UNEXPLAINED


def rounding_nats(dtype: str) -> float:
    """How far rounding may move the gap between two tokens in that precision, in nats: a smaller one is a near-tie."""
    return ROUNDING_NATS.get(dtype, ROUNDING_NATS[COARSEST])
