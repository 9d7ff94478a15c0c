"""A drafter of phrases: it proposes what its target wrote after the last tokens elsewhere, and what followed them here.

It runs no model: a table of the target's own answers (``table``) gives the distribution of what follows the last
tokens, and counts over the prompt and the text so far shift it towards the text at hand. It sees its path, and grows
the tree of its budget best first (paper 002, Algorithm 1, over conditionals); as a source of drafts it is a descendant
of prompt look-up and of REST (arXiv 2311.08252).
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush, nsmallest
from math import log
from typing import Self

import numpy as np

from engine.decoding.plan import Features
from engine.drafters.phrases.table import NO_PHRASES, PhraseTable, Row
from engine.records import Integers, Lattice

DEEPEST = 24  # tokens of the longest path
CELLS = 12  # the most proposals after a path
LEAST = 1e-5  # the least probability of a proposed token
LAST = 4  # tokens of the longest context
PRIOR = (8.0, 2.0, 1.0, 0.5)  # weight of the table against one occurrence in the text, by context length 1, 2, 3, 4


@dataclass
class Followers:
    """How often each token followed a context in the text, and how often any did."""

    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    total: int = 0


class TextCounts:
    """What followed each context of one to four tokens in the text so far."""

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], Followers] = defaultdict(Followers)
        self._tokens: list[int] = []

    def last(self) -> tuple[int, ...]:
        """The last tokens of the text."""
        return tuple(self._tokens[-LAST:])

    def count(self, token: int) -> None:
        """Count one more token of the text."""
        last = self.last()
        for order in range(1, len(last) + 1):
            continuations = self._after[last[-order:]]
            continuations.counts[token] += 1
            continuations.total += 1
        self._tokens.append(token)

    def shifted(self, row: Row, context: tuple[int, ...]) -> Row:
        """The distribution after a context, shifted towards this text's counts; in no order."""
        law = dict(row)
        for order in range(1, len(context) + 1):
            continuations = self._after.get(context[-order:])
            if continuations is None:
                break  # no longer context was seen either
            known, prior = continuations.total + PRIOR[order - 1], PRIOR[order - 1]
            law = {token: prior * share / known for token, share in law.items()}
            for token, count in continuations.counts.items():
                law[token] = law.get(token, 0.0) + count / known
        return list(law.items())


@dataclass(frozen=True)
class RowPlace:
    """A row of the lattice: its depth, its number there, and the last tokens of the path that leads to it."""

    depth: int
    row: int
    context: tuple[int, ...]


class Growth:
    """The best paths after a root, one after the other, and the rows of their children."""

    def __init__(self, law: Callable[[tuple[int, ...]], Row], context: tuple[int, ...]) -> None:
        self._law = law
        self.levels: list[list[Row]] = []
        self.follow: list[list[dict[int, int]]] = []  # by depth and row: the cells that lead on, and where
        self._waiting: list[tuple[float, int, int, RowPlace]] = []  # −log probability, order of arrival, cell, its row
        self._arrived = 0
        self._open(0, context, 0.0)

    def take(self) -> bool:
        """Give the best waiting path a row of children; return False where none waits."""
        if not self._waiting:
            return False
        score, _, cell, place = heappop(self._waiting)
        if place.depth + 1 < DEEPEST:
            token = self.levels[place.depth][place.row][cell][0]
            self.follow[place.depth][place.row][cell] = self._open(
                place.depth + 1, (*place.context, token)[-LAST:], score)
        return True

    def _open(self, depth: int, context: tuple[int, ...], score: float) -> int:
        """Add a row at a depth, whose cells then wait, and return its number."""
        if len(self.levels) == depth:
            self.levels.append([])
            self.follow.append([])
        law, place = self._law(context), RowPlace(depth, len(self.levels[depth]), context)
        self.levels[depth].append(law)
        self.follow[depth].append({})
        for cell, (_, share) in enumerate(law):
            self._arrived += 1
            heappush(self._waiting, (score - log(share), self._arrived, cell, place))
        return place.row

    def lattice(self) -> Lattice:
        """All rows as a lattice. The last row of each depth belongs to no path: cells that do not lead on point to
        it."""
        widest = max(len(law) for level in self.levels for law in level)
        shape = len(self.levels), max(map(len, self.levels)) + 1, max(1, widest)
        tokens, follow = np.zeros(shape, np.int32), np.full(shape, shape[1] - 1, np.int32)
        logprobs = np.full(shape, -np.inf, np.float32)
        for depth, (level, leads) in enumerate(zip(self.levels, self.follow, strict=True)):
            for row, (law, lead) in enumerate(zip(level, leads, strict=True)):
                if law:
                    tokens[depth, row, :len(law)], shares = zip(*law, strict=True)
                    logprobs[depth, row, :len(law)] = np.log(shares)
                for cell, to in lead.items():
                    follow[depth, row, cell] = to
        return Lattice(tokens, np.minimum(logprobs, 0.0), follow)


class PhraseDrafter:
    """The drafter of the module's docstring. Without a table it goes by the text's own counts."""

    def __init__(self, vocabulary: int, table: PhraseTable = NO_PHRASES) -> None:
        self.vocabulary, self.table = vocabulary, table
        self._text = TextCounts()

    def begin(self, rows: int) -> None:
        self._text = TextCounts()

    def observe(self, token_ids: Integers, features: Features) -> None:
        """See ``plan.Drafter``. The features are ignored."""
        for token in token_ids.tolist():
            self._text.count(token)

    def draft(self, root: int, width: int) -> Lattice:
        """See ``plan.Drafter``: the rows of the ``width`` best paths, and of the root's; other cells lead nowhere."""
        growth = Growth(self._law, (*self._text.last(), root)[-LAST:])
        for _ in range(width):
            if not growth.take():
                break
        return growth.lattice()

    def fork(self) -> Self:
        """See ``plan.Drafter``; the forks share the table."""
        return type(self)(self.vocabulary, self.table)

    def release(self) -> None:
        self.begin(0)

    def _law(self, context: tuple[int, ...]) -> Row:
        """The likeliest next tokens after a context with their probabilities, in descending order, the lower id first
        among equals."""
        law = self._text.shifted(self.table.after(context), context)
        return nsmallest(CELLS, [cell for cell in law if cell[1] >= LEAST], key=lambda cell: (-cell[1], cell[0]))
