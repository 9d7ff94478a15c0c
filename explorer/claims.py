"""The comparison of a run with plain decoding, as the page prints it: figures and sentences."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, zip_longest
from typing import Literal

from engine.lab.against_plain import (
    MIN_TURNS,
    RULE,
    SAME,
    SETTLING_TURNS,
    SO_FAR,
    TextComparison,
    TurnPair,
    compare_texts,
    cumulative_times,
    near_tie_text,
    rounding_nats,
    speed_beside_plain,
    turn_pairs,
)
from engine.lab.reading import WrittenText, text_of
from engine.lab.repetition import repetition_in, rounds_within
from engine.lab.speed import SpeedRecord, ratio_text, seconds_text
from engine.records import Precision, Round
from engine.trace import Header, Piece, RunText, Trace, as_bytes, join_tokens, pieces_of, tau

UNKNOWN = Precision("")
State = Literal["measuring", "ended", "interrupted"]  # of a comparison
INCOMPLETE_REASON = {
    "measuring": "the others are being compared", "ended": "plain decoding was recorded no further",
    "interrupted": "the others were not compared, since another run began"}
TIMING_INTERRUPTED = "Timing stopped because another run began, before there were enough turns for a range."


@dataclass(frozen=True)
class ComparedText:
    """The text comparison: the first ``same`` of ``tokens`` tokens are equal. ``words``: the result in sentences;
    ``rule``: the rule behind the verdict if the texts differ."""

    verdict: str
    same: int
    tokens: int
    words: str
    rule: str


@dataclass(frozen=True)
class Tracks:
    """Both texts on one clock, for the race animation.

    ``texts``: plain decoding's tokens. ``seconds``: when each token appeared, for the run and for plain decoding,
    scaled to the printed speeds. ``ends``: the printed totals.
    """

    title: str
    texts: tuple[str, ...]
    seconds: tuple[tuple[float, ...], ...] = ()
    ends: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrintedSpeed(SpeedRecord):
    """A speed. Unless the speed-up is withheld: ``tau`` and ``cost`` as printed (tau ÷ cost = times), ``how`` they were
    measured, and ``words``, a sentence."""

    how: str = ""
    tau: str = ""
    cost: str = ""
    words: str = ""


@dataclass(frozen=True)
class OtherSetting:
    """A setting that was timed because the run was slower. ``dtype``: empty for the run's own; ``drafted``: how many
    rounds verified a draft."""

    method: str
    budget: int
    pace: str
    dtype: str
    rounds: int
    drafted: int
    ratio: float
    times: str
    range: str = ""


@dataclass(frozen=True)
class PlainComparison:
    """A run beside plain decoding, as the page shows it; ``others`` start with the fastest."""

    state: State
    text: ComparedText
    tracks: Tracks
    speed: PrintedSpeed
    others: tuple[OtherSetting, ...] = ()


@dataclass(frozen=True)
class RunComparison:
    """A run and plain decoding of the same prompt. ``rounds``: those that were timed: the run's own if both are
    recordings, else a repetition's. ``turns``: those of every repetition."""

    trace: Trace
    rounds: Sequence[Round]
    plain: Sequence[Round]
    turns: Sequence[TurnPair]
    pieces: Mapping[int, Piece]
    state: State = "ended"
    interleaved: bool = True
    busy: bool = False

    def record(self, precision: Precision = UNKNOWN) -> PlainComparison:
        """Return the comparison for the page. Repeated text counts in the text comparison, not in the speeds."""
        run_rounds = self.trace.rounds
        text, plain = text_of(run_rounds), text_of(self.plain)
        comparison = compare_texts(text, plain, self.trace.header.request, self.trace.header.dtype)
        timed = self._before_repetition()
        record = speed_beside_plain(timed.turns, timed.trace.rounds, self.busy)
        if self.state == "interrupted" and len(self.turns) < MIN_TURNS + SETTLING_TURNS:
            record = replace(record, withheld=TIMING_INTERRUPTED, again=True)
        return PlainComparison(
            self.state, self._compared_text(comparison, text, plain),
            timed._tracks(comparison, record),
            printed_speed(record, tau(timed.trace.rounds), self.interleaved, precision))

    def _before_repetition(self) -> RunComparison:
        """Return this comparison cut where the text begins to loop."""
        start = repetition_in(self.trace.rounds, pieces_of(self.trace))
        if start is None:
            return self
        entries = self.trace.entries[:rounds_within(self.trace.rounds, start)]
        tokens = sum(len(entry.round.acceptance.keep) for entry in entries)
        rounds, plain = (side[:rounds_within(side, tokens)] for side in (self.rounds, self.plain))
        turns = [turn for turn in self.turns if turn.end <= tokens]
        return replace(self, trace=replace(self.trace, entries=entries), rounds=rounds, plain=plain, turns=turns)

    def _compared_text(self, comparison: TextComparison, text: WrittenText, plain: WrittenText) -> ComparedText:
        pieces = {**pieces_of(self.trace), **self.pieces}
        words = text_sentence(comparison, self.trace.header, self.state)
        if difference := comparison.difference:
            texts = ["".join(self._token_texts([*side.token_ids, *([side.bonus] if side.bonus >= 0 else [])]))
                     for side in (text, plain)]
            differing = [join_tokens(pieces, [token]) for token in (difference.token, difference.baseline_token)]
            words = f"{first_difference_text(texts, differing, difference.position)} {words}"
            words = f"{words} {near_tie_text(plain, rounding_nats(self.trace.header.dtype))}".rstrip()
        return ComparedText(
            comparison.verdict, comparison.same, comparison.tokens, words, RULE if comparison.difference else "")

    def _tracks(self, comparison: TextComparison, record: SpeedRecord) -> Tracks:
        texts = self._token_texts(text_of(self.plain).token_ids)
        tracks = Tracks(tracks_title(comparison, len(texts)), tuple(texts))
        if record.withheld:
            return tracks
        for rounds, speed in ((self.rounds, record.speed), (self.plain, record.plain_speed)):
            tokens = sum(len(round_.acceptance.keep) for round_ in rounds)
            tracks = replace(tracks, ends=(*tracks.ends, seconds_text(tokens, speed)),
                             seconds=(*tracks.seconds, tuple(_clock(rounds, tokens / float(speed)))))
        return tracks

    def _token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """Return what each token adds to the text; up to the first difference, as the run itself decoded it."""
        pieces = {**pieces_of(self.trace), **self.pieces}
        texts = [pieces.get(token, f"⟨{token}⟩") for token in token_ids]
        of_run = zip(token_ids, text_of(self.trace.rounds).token_ids, RunText(self.trace.lines).pieces, strict=False)
        for position, (token, run_token, piece) in enumerate(of_run):
            if token != run_token:
                break
            texts[position] = piece
        decode = getincrementaldecoder("utf8")("replace").decode
        return [decode(as_bytes(piece)) for piece in texts]


def _clock(rounds: Sequence[Round], end: float) -> list[float]:
    """Return the seconds at which each token appeared, scaled so that the last one appears at ``end``."""
    ends, clock = cumulative_times(rounds)
    return [round(now / clock[-1] * end, 6) for (before, after), now in zip(pairwise([0, *ends]), clock, strict=True)
            for _ in range(after - before)]


def recorded_comparison(trace: Trace, plain: Trace) -> PlainComparison:
    """Compare a recording with a recording of plain decoding; nothing is run."""
    return RunComparison(trace, trace.rounds, plain.rounds, turn_pairs(trace.rounds, plain.rounds), pieces_of(plain),
                         interleaved=trace.header.interleaved and plain.header.interleaved).record()


def text_sentence(comparison: TextComparison, header: Header, state: str) -> str:
    """Return the result of the text comparison as a sentence; if the texts differ, why they do."""
    if comparison.verdict == SAME:
        return f"The text is plain decoding's, word for word: all {comparison.tokens} tokens."
    if comparison.verdict == SO_FAR:
        return (f"The first {comparison.same} of {comparison.tokens} tokens are plain decoding's; "
                f"{INCOMPLETE_REASON[state]}.")
    return comparison.why(header.request.sampling.temperature, header.dtype)


def first_difference_text(texts: Sequence[str], differing: Sequence[str], position: int) -> str:
    """Return a sentence naming the word and token (1-based) at which two texts first differ.

    Args:
        texts: the run's text and plain decoding's.
        differing: the texts of their first differing tokens, "" at the end of a text.
        position: of those tokens.
    """
    words = [text.split() for text in texts]
    number = next((number for number, (word, plain_word) in enumerate(zip_longest(*words), 1) if word != plain_word),
                  None)
    place = f"word {number} (token {position + 1})" if number else f"token {position + 1}"
    token, plain_token = (f"“{text}”" if text else "the end of the text" for text in differing)
    return f"The text first differs from plain decoding's at {place}: {token} instead of {plain_token}."


def tracks_title(comparison: TextComparison, tokens: int) -> str:
    """Return the heading over the first ``tokens`` of both texts on one clock."""
    if comparison.verdict == SAME and tokens >= comparison.tokens:
        return "The same text, on one clock"
    if comparison.verdict in (SAME, SO_FAR) or tokens <= comparison.same:
        return f"The first {min(comparison.same, tokens)} tokens, on one clock"
    return f"Two texts, on one clock: the first {comparison.same} tokens are the same"


def printed_speed(record: SpeedRecord, tau_: float, interleaved: bool, precision: Precision = UNKNOWN) -> PrintedSpeed:
    """Add the printed sentences to a speed record. They name a dtype in which plain decoding is faster, if there is
    one."""
    if record.withheld:
        return PrintedSpeed(**asdict(record))
    quotient, tau_text = record.times.removesuffix("×"), f"{tau_:.2f}"
    cost = f"{tau_ / float(quotient):.2f}"
    how = "measured interleaved with plain decoding" if interleaved else "the two were recorded one after the other"
    words = (f"The speed-up lies between {record.range.replace(' to ', ' and ')}: {how}."
             f"{_faster_dtype_note(record.ratio, precision)}")
    return PrintedSpeed(**asdict(record), how=how, tau=tau_text, cost=cost, words=words)


def _faster_dtype_note(ratio: float, precision: Precision) -> str:
    """Return a sentence that compares the run with plain decoding in its fastest dtype; "" if that is the run's own."""
    if not precision.plain_dtype:
        return ""
    return (f" In {precision.plain_dtype}, where its text may differ, plain decoding alone takes "
            f"{1 / precision.plain_gain:.2f} of that time a pass: the run is about "
            f"{ratio_text(ratio / precision.plain_gain)}× as fast as that.")
