"""The laboratories of `bench` besides the live rig's: rounds with everything recorded, and the published plain loop;
and the sums of what they measure.

Each is a ``Laboratory``, so a bench's cells are measured by the same code as a sweep's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter

from engine.drafters.abilities import BlockDrafter
from engine.errors import RequestError
from engine.lab.reading import read
from engine.lab.settings import AcceptanceCounts, Reading
from engine.measure.instruments import LiveLaboratory
from engine.measure.plain import PlainLoop
from engine.records import STAGES, Ask, Round
from engine.trace import Entry, Line

PLAIN, PLAIN_TREE = "plain", "ddtree"  # the name of the plain loop, and the method that it runs


@dataclass
class Tally:
    """The sums of one repeat of one point."""

    tokens: int = 0
    rounds: int = 0
    seconds: float = 0.0
    forward_seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def add(self, found: Reading, forward_seconds: float) -> None:
        """Count a finished run."""
        self.tokens += len(found.token_ids)
        self.rounds += found.rounds
        self.seconds += found.seconds
        self.forward_seconds += forward_seconds
        for stage, seconds in found.stage_seconds.items():
            self.stages[stage] += seconds


class RecordingLaboratory(LiveLaboratory):
    """Runs with their text and every round kept, as the page keeps them. Their statistics are computed only when they
    are shown or written, so not here."""

    def measure(self, ask: Ask) -> Reading:
        """See ``lab.settings.Laboratory``."""
        kept: list[Line] = []
        return read(self._rounds(self.live.run(ask), kept))

    def _rounds(self, lines: Iterator[Line], kept: list[Line]) -> Iterator[Round]:
        for line in lines:
            kept.append(line)
            if isinstance(line, Entry):
                yield line.round


class PlainLaboratory(LiveLaboratory):
    """DDTree the way the paper's reference runs it, on the same weights: see ``plain.PlainLoop``."""

    def check(self, ask: Ask) -> None:
        """See ``LiveLaboratory``."""
        super().check(_as_tree(ask))
        self._drafter(ask)

    def measure(self, ask: Ask) -> Reading:
        """See ``lab.settings.Laboratory``. Rounds are lists of tokens, so nothing is reported of their trees."""
        request, loop = self.live.request(_as_tree(ask)), PlainLoop(self.rig.target, self._drafter(ask))
        began = perf_counter()
        state = loop.open(request)
        rounds, marks = [], [perf_counter()]
        for tokens in loop.rounds(request, state):
            rounds.append(tokens)
            marks.append(perf_counter())
        return Reading(
            tuple(token for tokens in rounds for token in tokens), tuple(map(len, rounds)), (), (),
            tuple(after - before for before, after in pairwise(marks)), marks[0] - began,
            dict.fromkeys(STAGES, 0.0), (), AcceptanceCounts(), -1, False)

    def _drafter(self, ask: Ask) -> BlockDrafter:
        ((name, drafter),) = self.rig.drafters_for(PLAIN_TREE, ask.drafters).items()
        if not isinstance(drafter, BlockDrafter):
            raise RequestError(f"The plain loop drafts with a block-diffusion drafter; {name} is not one.")
        return drafter


def _as_tree(ask: Ask) -> Ask:
    return Ask(ask.prompt, method=PLAIN_TREE, budget=ask.budget, max_tokens=ask.max_tokens, drafters=ask.drafters)
