"""Where two texts part, and why: the place, both tokens, the gap between the model's two best tokens there under each
run's own logits, and a verdict by ``RULE``. The check, the story and Compare use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    for round_ in rounds:
        token_ids += round_.committed.tolist()
        gaps += round_.verification.gap[round_.acceptance.keep].tolist()
        bonus = int(round_.acceptance.bonus)
    return Text(token_ids, gaps, bonus)


@dataclass(frozen=True)
class Difference:
    """The first place in the text, counted from 0, where the two differ: the token of each, and the gap in nats between
    the target's first and second token there, of the baseline's run and of the text's ``own``; None at place 0, which
    the prefill chose, and where it was not recorded."""

    place: int
    token: int
    baseline_token: int
    gap: float | None
    own: float | None = field(default=None, compare=False)


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
    return Difference(place, ours[place], theirs[place], gap_before(baseline, place), gap_before(reading, place))


def gap_before(text: Written, place: int) -> float | None:
    """The gap in nats where the token at this place was chosen; None where it is not known."""
    gap = text.gaps[place - 1] if 0 < place <= len(text.gaps) else None
    return None if gap is None or isnan(gap) else gap


@dataclass(frozen=True)
class TextComparison:
    """A run's text against plain decoding's: the first ``same`` of its ``tokens`` are the same; ``verdict`` is one of
    the constants above, ``difference`` is where they part."""

    verdict: str
    same: int
    tokens: int
    difference: Difference | None = None

    def why(self, temperature: float, dtype: str) -> str:
        """The verdict on where they part in a sentence, by the widest gap that is known."""
        gaps = [self.difference.gap, self.difference.own] if self.difference else []
        known = [gap for gap in gaps if gap is not None]
        return verdict_words(self.verdict, temperature, max(known, default=None), dtype)


def compared(text: Written, plain: Written, request: Request, dtype: str) -> TextComparison:
    """The run's text against as much of plain decoding's as there is, both in precision ``dtype``; ``request`` is the
    run's."""
    tokens, difference = len(text.token_ids), first_difference(text, plain)
    if difference is None:
        same = min(tokens, len(plain.token_ids))
        return TextComparison(SAME if same == tokens else SO_FAR, same, tokens)
    why = verdict([request], [difference.gap, difference.own], rounding_nats(dtype))
    return TextComparison(why, min(difference.place, tokens), tokens, difference)


RULE = ("Texts that one model chooses at temperature 0 may part where its two best tokens lie within rounding of each "
        "other: 0.001 nats in float32 and int4, 0.5 in 16 bits, the coarser of two precisions. Where every run that "
        "recorded the gap has it within that, it is a near-tie; where one has a wider gap, rounding does not explain "
        "the difference: look for a bug. Of texts drawn at a temperature nothing follows.")


def verdict(requests: Sequence[Request], gaps: Sequence[float | None], rounding: float) -> str:
    """Why the texts of these requests part where the gaps are these: ``RULE``. A draw that lies between two tokens may
    be turned by rounding however far these are apart, so a gap explains only what was chosen at temperature 0."""
    methods = [METHODS.get(request.method) for request in requests]
    if any(method and not method.lossless for method in methods):
        return BIASED
    if any(request.sampling.temperature > 0 for request in requests):
        return UNKNOWN if all(method and method.follows_text for method in methods) else DRAWN
    known = [gap for gap in gaps if gap is not None]
    if not known:
        return UNKNOWN
    return NEAR_TIE if max(known) <= rounding else UNEXPLAINED


def verdict_words(why: str, temperature: float, gap: float | None, dtype: str) -> str:
    """A verdict in a sentence; ``gap`` is the widest that is known."""
    if why == BIASED:
        return "This method is biased: its text is not always what the big model alone would write."
    if why == DRAWN:
        return (f"Both were drawn at temperature {temperature:g}, and this method draws on its own: it keeps plain "
                "decoding's distribution, not its draws.")
    if temperature > 0:
        return f"Both were drawn at temperature {temperature:g}; how near the draw was to the other token is not known."
    if gap is None:
        return "How near the two tokens were for the big model is not known."
    near = f"For the big model the two were {abs(gap):.2g} nats apart"
    if why == NEAR_TIE:
        return f"{near}: a near-tie, which rounding in {dtype} may turn."
    return f"{near}, which rounding in {dtype} does not explain: look for a bug."


def how_often(text: Written, rounding: float) -> str:
    """How many places of a text are near-ties, in a sentence; empty where its gaps were not recorded."""
    known = [gap for gap in text.gaps if not isnan(gap)]
    near = sum(gap <= rounding for gap in known)
    return f"Of {len(known)} places of this text {near} are as near." if known else ""


def rounding_nats(dtype: str) -> float:
    """How far rounding may move the gap between two tokens in that precision, in nats: a smaller one is a near-tie."""
    return ROUNDING_NATS.get(dtype, ROUNDING_NATS[COARSEST])
