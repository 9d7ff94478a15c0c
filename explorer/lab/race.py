"""A race as the page shows it: tracks with their clocks, their text round by round, and sentences about them."""

from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypedDict

from engine.lab.against_plain import likelihood_ratio_text
from engine.lab.settings import CellResult, SweepPlan
from engine.lab.speed import seconds_text
from engine.lab.sweeping import Laboratory, Track, run_race, tracks
from engine.trace import Piece, as_bytes, join_tokens
from explorer.jobs import Job
from explorer.lab.style import label_of
from explorer.lab.table import TableRow, row_view


class TrackView(TypedDict):
    """A track. ``parts``: the text that each round added. ``row``: its row of the table, None if it failed. ``end``:
    total seconds at the printed speed, to which its rounds are scaled; empty if the speed is withheld, and then the
    track is not animated."""

    label: str
    method: str
    seconds: Sequence[float]
    tokens: Sequence[int]
    end: str
    parts: list[str]
    failure: str
    row: TableRow | None
    difference: str


class RaceView(TypedDict):
    """A race. ``seconds``: the duration of the longest track."""

    seconds: float
    tracks: list[TrackView]


def run(laboratory: Laboratory, plan: SweepPlan, job: Job) -> RaceView:
    """Measure the race; the job holds its progress."""
    results: list[CellResult] = []
    job.total, job.share, job.message = len(plan), 0.0, "Warming up: every track runs once, unmeasured."
    for measured in run_race(laboratory, plan, job.stop):
        results.append(measured)
        job.done, job.share, job.message = len(results), len(results) / len(plan), ""
    race = tracks(plan, results, laboratory)
    views = [track_view(track, race.pieces) for track in race.tracks]
    return {"seconds": max((view["seconds"][-1] for view in views if view["end"]), default=0.0), "tracks": views}


def track_view(track: Track, pieces: Mapping[int, Piece]) -> TrackView:
    """Return a track for the page."""
    seconds, end, words = track.seconds, "", ""
    if track.row and not track.row.withheld:
        end = seconds_text(track.tokens[-1], track.row.record.speed)
        seconds = tuple(second * float(end) / track.seconds[-1] for second in track.seconds)
    if first := track.difference:
        ours, theirs = (join_tokens(pieces, [token]) if token >= 0 else "the end" for token in (
            first.token, first.baseline_token))
        gap = "" if first.gap is None else f" For the target {likelihood_ratio_text(first.gap)}."
        words = f"Differs from plain decoding at token {first.position + 1}: {ours!r} instead of {theirs!r}.{gap}"
    return {
        "label": label_of(track.setting), "method": track.setting.method, "seconds": seconds, "tokens": track.tokens,
        "end": end, "parts": parts(track.text_pieces, track.tokens), "failure": track.failure,
        "row": row_view(track.row) if track.row else None, "difference": words}


def parts(shown: Sequence[Piece], ends: Sequence[int]) -> list[str]:
    """Return the text that each round added; a character whose bytes two rounds share belongs to the later one."""
    decode = getincrementaldecoder("utf8")("replace").decode
    return [decode(b"".join(map(as_bytes, shown[begin:end])), final=end == ends[-1])
            for begin, end in pairwise([0, *ends])]

