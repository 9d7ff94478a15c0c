"""What may be said of a run beside plain decoding, in figures and sentences: the page prints it as it stands here."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, zip_longest
from statistics import fmean

from engine.lab.against_plain import (
    MIN_TURNS,
    RULE,
    SAME,
    SETTLING_TURNS,
    SO_FAR,
    Text,
    TextComparison,
    TurnPair,
    compare_texts,
    how_often,
    moments,
    rounding_nats,
    speed_beside_plain,
    text_of,
    turn_pairs,
)
from engine.lab.machines import FLOOR, LOOP, PUBLISHED_DEVICE, PUBLISHED_MODEL, caution, machine_curve
from engine.lab.repetition import repetition_in, rounds_within
from engine.lab.speed import SpeedRecord, cost_text, divisor_text, ratio_text
from engine.records import Precision, Round
from engine.trace import Header, Piece, RunText, Trace, as_bytes, joined, pieces_of, tau
from explorer.view import View

UNKNOWN = Precision("")
GOING_ON, ENDED, CUT = "measuring", "ended", "cut"
REST = {GOING_ON: "the others are being compared", CUT: "the others were not compared, since another run began",
        ENDED: "plain decoding was recorded no further"}
CUT_SHORT = "Timing stopped because another run began, before there were enough turns for a range."


@dataclass(frozen=True)
class RunComparison:
    """A run beside plain decoding of the same prompt. ``rounds`` are those that were timed with plain decoding's: the
    run's own if both are recordings, else a second run of the same ask; ``turns`` may come from further ones.
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
        ``gpu_view``}. What a text repeats is compared as a text, and is left out of the speeds and the lanes."""
        run_rounds = self.run_rounds
        text, plain = text_of(run_rounds), text_of(self.plain)
        comparison = compare_texts(text, plain, self.trace.header.request, self.trace.header.dtype)
        timed = self._before_repetition()
        record = speed_beside_plain(timed.turns, timed.run_rounds, self.busy)
        if self.state == CUT and len(self.turns) < MIN_TURNS + SETTLING_TURNS:
            record = replace(record, withheld=CUT_SHORT, again=True)
        return {"state": self.state, "text": self._text_view(comparison, text, plain),
                "lanes": timed._lanes(comparison, record),
                "speed": speed_view(record, tau(timed.run_rounds), self.in_turns, precision, whole=timed is self),
                "gpu": gpu_view(fmean(len(round_.tree) for round_ in run_rounds)) if run_rounds else None}

    @property
    def run_rounds(self) -> list[Round]:
        return [entry.round for entry in self.trace.entries]

    def _before_repetition(self) -> RunComparison:
        """The same of as much of the text as does not repeat itself."""
        start = repetition_in(self.run_rounds, pieces_of(self.trace))
        if start is None:
            return self
        entries = self.trace.entries[:rounds_within(self.run_rounds, start)]
        tokens = sum(len(entry.round.acceptance.keep) for entry in entries)
        rounds, plain = (side[:rounds_within(side, tokens)] for side in (self.rounds, self.plain))
        turns = [turn for turn in self.turns if turn.end <= tokens]
        return replace(self, trace=replace(self.trace, entries=entries), rounds=rounds, plain=plain, turns=turns)

    def _text_view(self, comparison: TextComparison, text: Text, plain: Text) -> View:
        """{"verdict", "same": tokens that are, "tokens": of the run, "words": sentences, "rule": of the verdict}."""
        named = {**pieces_of(self.trace), **self.pieces}
        words = text_sentence(comparison, self.trace.header, self.state)
        if difference := comparison.difference:
            texts = ["".join(self._token_texts([*side.token_ids, *([side.bonus] if side.bonus >= 0 else [])]))
                     for side in (text, plain)]
            two = [joined(named, [token]) for token in (difference.token, difference.baseline_token)]
            words = f"{parting(texts, two, difference.position)} {words}"
            words = f"{words} {how_often(plain, rounding_nats(self.trace.header.dtype))}".rstrip()
        return {"verdict": comparison.verdict, "same": comparison.same, "tokens": comparison.tokens, "words": words,
                "rule": RULE if comparison.difference else ""}

    def _lanes(self, comparison: TextComparison, record: SpeedRecord) -> View:
        """{"title", "texts": what each token of plain decoding adds, "seconds": when the run and plain decoding had
        each token, "ends": in how many seconds all of them, as printed}. The rhythm is that of the rounds, the length
        that of the record's speeds, so tokens ÷ seconds are the tokens per second that stand beside them."""
        texts = self._token_texts(text_of(self.plain).token_ids)
        lanes: View = {"title": lanes_title(comparison, len(texts)), "texts": texts, "seconds": [], "ends": []}
        if record.withheld:
            return lanes
        for rounds, speed in ((self.rounds, record.speed), (self.plain, record.plain_speed)):
            tokens = sum(len(round_.acceptance.keep) for round_ in rounds)
            lanes["ends"].append(divisor_text(tokens, speed))
            lanes["seconds"].append(_clock(rounds, tokens / float(speed)))
        return lanes


    def _token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """What each token of a text adds to it: as in the run, as far as they are the run's tokens."""
        named = {**pieces_of(self.trace), **self.pieces}
        shown = [named.get(token, f"⟨{token}⟩") for token in token_ids]
        own = zip(token_ids, text_of(self.run_rounds).token_ids, RunText(self.trace.lines).pieces, strict=False)
        for place, (token, same, piece) in enumerate(own):
            if token != same:
                break
            shown[place] = piece
        decode = getincrementaldecoder("utf8")("replace").decode
        return [decode(as_bytes(piece)) for piece in shown]


def _clock(rounds: Sequence[Round], end: float) -> list[float]:
    """When each token was there, in seconds, if the last one is there at ``end``."""
    ends, clock = moments(rounds)
    return [round(now / clock[-1] * end, 6) for (before, after), now in zip(pairwise([0, *ends]), clock, strict=True)
            for _ in range(after - before)]


def recorded_comparison(trace: Trace, plain: Trace) -> View:
    """A recording beside that of plain decoding: compared where they lie, since nothing runs."""
    rounds, plain_rounds = ([entry.round for entry in side.entries] for side in (trace, plain))
    return RunComparison(trace, rounds, plain_rounds, turn_pairs(rounds, plain_rounds), pieces_of(plain),
                         in_turns=trace.header.in_turns and plain.header.in_turns).view()


def text_sentence(comparison: TextComparison, header: Header, state: str) -> str:
    """What the comparison of the texts came to. If they part, this follows the sentence that says at which word."""
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


def lanes_title(comparison: TextComparison, tokens: int) -> str:
    """The heading over the first ``tokens`` of both texts on one clock."""
    if comparison.verdict == SAME and tokens >= comparison.tokens:
        return "The same text, on one clock"
    if comparison.verdict in (SAME, SO_FAR) or tokens <= comparison.same:
        return f"The first {min(comparison.same, tokens)} tokens, on one clock"
    return f"Two texts, on one clock: the first {comparison.same} tokens are the same"


def speed_view(record: SpeedRecord, tau_: float, in_turns: bool, precision: Precision = UNKNOWN, *,
               whole: bool = True) -> View:
    """The fields of ``SpeedRecord``, and if a speed-up may be said {"tau", "cost": as printed, "how": both were
    measured, "words": a sentence}. As printed, tau ÷ cost = times. ``whole``: they are of the whole text. If plain
    decoding alone would be clearly faster in another dtype, the sentence says how the run stands beside that."""
    if record.withheld:
        return asdict(record)
    quotient, tau_text = record.times.removesuffix("×"), f"{tau_:.2f}"
    cost = cost_text(float(tau_text), quotient)
    how = "measured in turns with plain decoding" if in_turns else "the two were recorded one after the other"
    subject = "A pass" if whole else "Before the text repeats itself, a pass"
    return {**asdict(record), "how": how, "tau": tau_text, "cost": cost,
            "words": f"{subject} wrote {tau_text} tokens and took, draft included, as long as {cost} plain ones: "
                     f"{tau_text} ÷ {cost} = {quotient} ({record.range}; {how}).{_elsewhere(record.ratio, precision)}"}


def gpu_view(rows: float) -> View:
    """What a round over so many rows costs in plain steps on the GPU of published results, draft included: {"name",
    "loop": as the published loop, "floor": as bandwidth and operations allow, "caution": how good such predictions
    were}. Predicted."""
    curves = {line: machine_curve(PUBLISHED_MODEL, PUBLISHED_DEVICE, line) for line in (LOOP, FLOOR)}
    costs = {line: curve.round_ms(round(rows), round(rows) - 1, 1) / curve.plain_ms for line, curve in curves.items()}
    return {"name": f"{PUBLISHED_MODEL} on an {PUBLISHED_DEVICE}", "loop": round(costs[LOOP], 2),
            "floor": round(costs[FLOOR], 2), "caution": caution()}


def _elsewhere(ratio: float, precision: Precision) -> str:
    """How the run stands beside plain decoding in the dtype that is fastest for that alone; empty if it is the
    run's own."""
    if not precision.plain_dtype:
        return ""
    return (f" In {precision.plain_dtype}, where its text may differ, plain decoding alone takes "
            f"{1 / precision.plain_gain:.2f} of that time a pass: the run is about "
            f"{ratio_text(ratio / precision.plain_gain)}× as fast as that.")
