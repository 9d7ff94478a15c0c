"""Makes a ``Reading`` of rounds: of a run in progress, or of a recorded trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from time import perf_counter

from engine.lab.acceptance_counts import AcceptanceTally, ended_by_text, expected_length
from engine.lab.settings import Reading
from engine.records import STAGES, Round
from engine.trace import Trace


def read(rounds: Iterable[Round]) -> Reading:
    """Run to the end, then make the reading.

    Nothing is read in between: a pause would let a device finish, off the clock, work that a round has left in flight.
    """
    kept: list[Round] = []
    step_seconds: list[float] = []
    began = perf_counter()
    for made in rounds:
        now = perf_counter()
        step_seconds.append(now - began)
        kept.append(made)
        began = perf_counter()
    return reading(kept, step_seconds)


def reading_of(trace: Trace) -> Reading:
    """The reading of a recorded run, whose entries carry the engine time since its start."""
    elapsed = [0.0, *(entry.elapsed_seconds for entry in trace.entries)]
    return reading([entry.round for entry in trace.entries], [after - before for before, after in pairwise(elapsed)])


def reading(rounds: Sequence[Round], step_seconds: Sequence[float], committed: Sequence[int] = ()) -> Reading:
    """The reading of a run's rounds. ``step_seconds`` (rounds,): the time of each step of the loop; the first includes
    the prefill. ``committed`` (rounds,): see ``Reading``."""
    own = [sum(rounds[0].seconds.values()), *step_seconds[1:]] if rounds else []
    cut = bool(rounds) and ended_by_text(rounds[-1])
    tally = AcceptanceTally()
    for made in rounds[:-1] if cut else rounds:
        tally.add(made)
    return Reading(
        token_ids=tuple(token for made in rounds for token in made.committed.tolist()),
        lengths=tuple(len(made.acceptance.keep) for made in rounds),
        rows=tuple(len(made.tree) for made in rounds),
        expected=tuple(expected_length(made.tree) for made in rounds),
        round_seconds=tuple(own),
        prefill_seconds=max(0.0, step_seconds[0] - own[0]) if own else 0.0,
        stage_seconds={stage: sum(made.seconds.get(stage, 0.0) for made in rounds) for stage in STAGES},
        gaps=tuple(gap for made in rounds for gap in made.verification.gap[made.acceptance.keep].tolist()),
        acceptance=tally.counts(),
        bonus=rounds[-1].acceptance.bonus if rounds else -1,
        cut=cut,
        committed=tuple(committed))
