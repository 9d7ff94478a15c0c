"""The JSON lines of a run that the page receives: the trace's lines, plus state and about lines."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, NotRequired, TypedDict

from engine.decoding.methods import METHODS
from engine.lab.repetition import repetition_in, rounds_within
from engine.requests.rig_names import DTYPE_WORDS
from engine.trace import End, Entry, Header, Line, Trace, encode_line, encode_record, known_tau, pieces_of
from explorer.claims import PlainComparison

MAX_RANKS = 16  # proposals per lattice row that the page shows
MODEL_LIMITS = {"demo rig": "A model of 11 million parameters: often wrong.",
                "SmolLM2-135M-Instruct": "A model of 135 million parameters: often wrong."}  # of the rigs that ship


class HeaderLine(TypedDict):
    """The first line of a run; ``canopy_trace`` is the version of the format."""

    canopy_trace: int
    header: Header


class EndLine(TypedDict):
    """The last line of a run."""

    end: End


State = Literal["queued", "running", "stopped", "done", "error"]


class StateLine(TypedDict):
    """The run's state, with a message for the user. A response begins and ends with one."""

    state: State
    run: str
    message: str


class Repetition(TypedDict):
    """Where a text begins to repeat itself: the token and the round that first wrote of it, both from 0."""

    token: int
    round: int
    words: str


class About(TypedDict):
    """The server's comments on a run: ``lossless`` (null for an unknown method), ``remark`` (what the file lacks) and
    ``comparison`` with plain decoding (``claims``)."""

    dtype_words: NotRequired[str]
    model_limit: NotRequired[str]
    outside: NotRequired[bool]
    lossless: NotRequired[bool | None]
    remark: NotRequired[str]
    repetition: NotRequired[Repetition | None]
    comparison: NotRequired[PlainComparison]


class AboutLine(TypedDict):
    """The server's comments, always complete."""

    about: About


StreamLine = HeaderLine | Entry | EndLine | StateLine | AboutLine


def about(header: Header) -> About:
    """Return the comments that follow from the header."""
    method = METHODS.get(header.request.method)
    return {"dtype_words": ". ".join(filter(None, [DTYPE_WORDS.get(header.dtype, ""), header.precision])),
            "model_limit": "" if header.engine else MODEL_LIMITS.get(header.rig, ""),
            "outside": header.outside, "lossless": method.lossless if method else None}


def remark(end: End) -> str:
    """Return sentences about missing rounds, and the recorder's own remark; empty if there are none."""
    counts = [f"{count} {'round was' if count == 1 else 'rounds were'} {what}" for count, what in (
        (end.dropped, "dropped, because the loop was faster than its recorder"), (end.refused, "refused as wrong"))
        if count]
    cut = ["the file is cut off there"] if end.reason == "cut" else []
    return " ".join([*(f"{words[0].upper()}{words[1:]}." for words in counts + cut), *filter(None, [end.note])])


def repetition(trace: Trace) -> Repetition | None:
    """Find where the text begins to repeat itself; None if it does not."""
    rounds = trace.rounds
    start = repetition_in(rounds, pieces_of(trace))
    if start is None:
        return None
    begin = rounds_within(rounds, start)
    before, after = known_tau(trace.header, rounds[:begin]), known_tau(trace.header, rounds[begin:])
    lengths = f": τ {before:.2f} before, {after:.2f} after" if trace.header.drafters and before and after else ""
    return {"token": start, "round": begin, "words":
            f"From token {start + 1} on the text repeats itself{lengths}. Speeds cover what is before."}


def encoded(line: Line | Mapping[str, Any]) -> bytes:
    """Encode a line. Lattices are cut to ``MAX_RANKS``, which makes lines a quarter as long."""
    if isinstance(line, Entry):
        drafts = tuple(draft.narrowed(MAX_RANKS) for draft in line.round.drafts)
        value = encode_line(replace(line, round=replace(line.round, drafts=drafts)))
        if line.shared:
            value["shared"] = encode_record(line.shared)
    else:
        value = encode_record(line) if isinstance(line, Mapping) else encode_line(line)
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def encode_up_to(lines: Iterable[Line], most_bytes: int) -> tuple[bytes, int]:
    """Encode lines until they exceed ``most_bytes``, at least one. Return the bytes and the number of lines."""
    sent = list[bytes]()
    size = 0
    for line in lines:
        sent.append(encoded(line))
        size += len(sent[-1])
        if size >= most_bytes:
            break
    return b"".join(sent), len(sent)
