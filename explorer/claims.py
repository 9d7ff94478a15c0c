"""What may be said of a run beside plain decoding, in figures and sentences: the page prints it as it stands here."""

from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from statistics import fmean

from engine.lab.against_plain import (
    LEAST_TURNS,
    RULE,
    SAME,
    SETTLING_TURNS,
    SO_FAR,
    SpeedRatio,
    Text,
    TextComparison,
    TurnPair,
    compare_texts,
    how_often,
    moments,
    rounding_nats,
    speed_ratio,
    text_of,
    turn_pairs,
)
from engine.lab.machines import FLOOR, LOOP, PUBLISHED_DEVICE, PUBLISHED_MODEL, caution, machine_curve
from engine.lab.report import division, rates, ratio_text
from engine.records import Precision, Round
from engine.trace import Header, Piece, Trace, as_bytes, joined, pieces_of, tau
from explorer.view import View

UNKNOWN = Precision("")
GOING_ON, ENDED, CUT = "measuring", "ended", "cut"
REST = {GOING_ON: "the others are being compared", CUT: "the others were not compared, since another run began",
        ENDED: "plain decoding was recorded no further"}
CUT_SHORT = SpeedRatio(withheld="Timing stopped because another run began, before there were enough turns for a range.")


@dataclass(frozen=True)
class RunComparison:
    """A run beside plain decoding of the same prompt. ``rounds`` are those that were timed with plain decoding's: the
    run's own where both are recordings, else a second run of the same ask; ``turns`` may come from further ones.
    ``state`` is one of the constants above."""

    trace: Trace
    rounds: Sequence[Round]
    plain: Sequence[Round]
    turns: Sequence[TurnPair]
    pieces: Mapping[int, Piece]
    state: str = ENDED
    in_turns: bool = True
    busy: bool = False

    def view(self, precision: Precision = UNKNOWN) -> View:
        """{"state", "text": see ``_text_view``, "speed": see ``speed_view``, "lanes": see ``_lanes``, "gpu": see
        ``gpu_view``}."""
        run_rounds = [entry.round for entry in self.trace.entries]
        text, plain = text_of(run_rounds), text_of(self.plain)
        comparison = compare_texts(text, plain, self.trace.header.request, self.trace.header.dtype)
        few = len(self.turns) < LEAST_TURNS + SETTLING_TURNS
        ratio = CUT_SHORT if self.state == CUT and few else speed_ratio(self.turns, run_rounds, self.busy)
        return {"state": self.state, "text": self._text_view(comparison, text, plain),
                "lanes": self._lanes(comparison, plain),
                "speed": speed_view(ratio, tau(run_rounds), self.in_turns, precision),
                "gpu": gpu_view(fmean(len(round_.tree) for round_ in run_rounds)) if run_rounds else None}

    def _text_view(self, comparison: TextComparison, text: Text, plain: Text) -> View:
        """{"verdict", "same": tokens that are, "tokens": of the run, "words": sentences, "rule": of the verdict}."""
        named = {**pieces_of(self.trace), **self.pieces}
        words = text_sentence(comparison, self.trace.header, self.state)
        if difference := comparison.difference:
            texts = [joined(named, [*side.token_ids, *([side.bonus] if side.bonus >= 0 else [])])
                     for side in (text, plain)]
            two = [joined(named, [token]) for token in (difference.token, difference.baseline_token)]
            words = f"{parting(texts, two, difference.position)} {words}"
            words = f"{words} {how_often(plain, rounding_nats(self.trace.header.dtype))}".rstrip()
        return {"verdict": comparison.verdict, "same": comparison.same, "tokens": comparison.tokens, "words": words,
                "rule": RULE if comparison.difference else ""}

    def _lanes(self, comparison: TextComparison, plain: Text) -> View:
        """{"title", "texts": what each token of plain decoding adds, "seconds": when the run and plain decoding had
        each token, from the end of the first turn on}."""
        begins = [sum(turn.seconds for turn in self.turns[:SETTLING_TURNS]),
                  sum(turn.plain_seconds for turn in self.turns[:SETTLING_TURNS])]
        decode, named = getincrementaldecoder("utf8")("replace").decode, {**pieces_of(self.trace), **self.pieces}
        return {"title": lanes_title(comparison), "texts": [decode(as_bytes(named.get(token, f"⟨{token}⟩")))
                                                       for token in plain.token_ids],
                "seconds": [_clock(rounds, begin) for rounds, begin in zip(
                    (self.rounds, self.plain), begins, strict=True)]}


def _clock(rounds: Sequence[Round], begin: float) -> list[float]:
    """When each token was there, in seconds after ``begin``."""
    ends, clock = moments(rounds)
    return [round(max(0.0, now - begin), 6) for (before, end), now in zip(pairwise([0, *ends]), clock, strict=True)
            for _ in range(end - before)]


def recorded_comparison(trace: Trace, plain: Trace) -> View:
    """A recording beside that of plain decoding: compared where they lie, since nothing runs."""
    rounds, plain_rounds = ([entry.round for entry in side.entries] for side in (trace, plain))
    return RunComparison(trace, rounds, plain_rounds, turn_pairs(rounds, plain_rounds), pieces_of(plain),
                         in_turns=trace.header.in_turns and plain.header.in_turns).view()


def text_sentence(comparison: TextComparison, header: Header, state: str) -> str:
    """What the comparison of the texts came to. Where they part, this follows the sentence that says at which word."""
    if comparison.verdict == SAME:
        return f"The text is plain decoding's, word for word: all {comparison.tokens} tokens were compared."
    if comparison.verdict == SO_FAR:
        return f"The first {comparison.same} of {comparison.tokens} tokens are plain decoding's; {REST[state]}."
    return comparison.why(header.request.sampling.temperature, header.dtype)


def parting(texts: Sequence[str], two: Sequence[str], position: int) -> str:
    """At which word and token, counted from 1, two texts part, and the token of each; an empty one ends the text."""
    words = [text.split() for text in texts]
    number = next((number for number, (one, other) in enumerate(zip_longest(*words), 1) if one != other), None)
    at = f"word {number} (token {position + 1})" if number else f"token {position + 1}"
    one, other = (f"“{token}”" if token else "the end of the text" for token in two)
    return f"The text parts from plain decoding's at {at}: {one} instead of {other}."


def lanes_title(comparison: TextComparison) -> str:
    """The heading over both texts on one clock."""
    if comparison.verdict == SAME:
        return "The same text, on one clock"
    if comparison.verdict == SO_FAR:
        return f"The first {comparison.same} tokens, on one clock"
    return f"Two texts, on one clock: the first {comparison.same} tokens are the same"


def speed_view(speed: SpeedRatio, tau_: float, in_turns: bool, precision: Precision = UNKNOWN) -> View:
    """{"withheld": why there is no ratio}, and where there is one {"ratio", "standing": faster, slower or alike,
    "times", "range", "tau", "cost", "speed", "plain_speed": as printed, "words": a sentence}. As printed,
    tau ÷ cost = times and speed ÷ plain_speed = times. Where plain decoding alone would be clearly faster in another
    dtype, the sentence says how the run stands beside that."""
    if speed.withheld:
        return {"withheld": speed.withheld}
    whole, speeds = division(tau_, speed.ratio, 2), rates(speed.speed, speed.plain_speed)
    bounds = f"{ratio_text(speed.low)} to {ratio_text(speed.high)}"
    how = "measured in turns with plain decoding" if in_turns else "the two were recorded one after the other"
    return {
        "withheld": "", "ratio": speed.ratio, "times": f"{whole.quotient}×", "range": bounds, "how": how,
        "standing": "faster" if speed.low > 1 else "slower" if speed.high < 1 else "alike",
        "tau": whole.dividend, "cost": whole.divisor, "speed": speeds.dividend, "plain_speed": speeds.divisor,
        "words": f"A pass wrote {whole.dividend} tokens and took, draft included, as long as {whole.divisor} plain "
                 f"ones: {whole.dividend} ÷ {whole.divisor} = {whole.quotient} ({bounds}; {how})."
                 f"{_elsewhere(speed.ratio, precision)}"}


def gpu_view(rows: float) -> View:
    """What a round over so many rows costs in plain steps on the GPU of published results, draft included: {"name",
    "loop": as the published loop, "floor": as bandwidth and operations allow, "caution": how good such predictions
    were}. Predicted."""
    curves = {line: machine_curve(PUBLISHED_MODEL, PUBLISHED_DEVICE, line) for line in (LOOP, FLOOR)}
    costs = {line: curve.round_ms(round(rows), round(rows) - 1, 1) / curve.plain_ms for line, curve in curves.items()}
    return {"name": f"{PUBLISHED_MODEL} on an {PUBLISHED_DEVICE}", "loop": round(costs[LOOP], 2),
            "floor": round(costs[FLOOR], 2), "caution": caution()}


def _elsewhere(ratio: float, precision: Precision) -> str:
    """How the run stands beside plain decoding in the dtype that is fastest for that alone; empty where it is the
    run's own."""
    if not precision.plain_dtype:
        return ""
    return (f" In {precision.plain_dtype}, where its text may differ, plain decoding alone takes "
            f"{1 / precision.plain_gain:.2f} of that time a pass: the run is about "
            f"{ratio_text(ratio / precision.plain_gain)}× as fast as that.")
