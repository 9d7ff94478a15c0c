"""An n-gram drafter over the text itself: counts over the prompt and the text so far. Torch-free.

A drafter that costs next to nothing and sees its path: its proposals are conditionals, one row per context
(papers 000 and 001 let a drafter score a node given its path; paper 003 drafts with a bigram model).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Self

import numpy as np

from engine.decoding.plan import Features
from engine.records import Integers, Lattice

NOTHING = -1  # stands before the first token of a text

Context = tuple[int, int]  # the last two tokens
Counts = defaultdict[int, int]


@dataclass
class Tallies:
    """How often each token followed two tokens, one token, and none."""

    pairs: dict[Context, Counts] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    singles: dict[int, Counts] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    alone: Counts = field(default_factory=lambda: defaultdict(int))
    length: int = 0

    def count(self, context: Context, token: int) -> None:
        """Count one more token of the text, after its two predecessors."""
        self.pairs[context][token] += 1
        self.singles[context[1]][token] += 1
        self.alone[token] += 1
        self.length += 1


class NGramDrafter:
    """Trigrams that back off to bigrams and single tokens, with one pseudo-count for the next shorter context.

    P(t | a b) = (n(a b t) + P(t | b)) / (n(a b) + 1), P(t | b) likewise over P(t), and P(t) = (n(t) + 1 / V) / (N + 1):
    normalised over the whole vocabulary of V tokens, unseen ones included.
    """

    def __init__(self, vocabulary: int, depth: int = 5, width: int = 2) -> None:
        self.vocabulary, self.depth, self.width = vocabulary, depth, min(width, vocabulary)
        self._tallies = Tallies()
        self._context: Context = (NOTHING, NOTHING)

    def begin(self, rows: int) -> None:
        self._tallies = Tallies()
        self._context = (NOTHING, NOTHING)

    def observe(self, token_ids: Integers, features: Features) -> None:
        """See ``plan.Drafter``. The features are ignored."""
        for token in token_ids.tolist():
            self._tallies.count(self._context, token)
            self._context = self._context[1], token

    def draft(self, root: int, width: int) -> Lattice:
        """See ``plan.Drafter``: min(width, own width) tokens per row, and a row per distinct context of a depth."""
        width = min(width, self.width)
        common = self._most_common(width)
        levels: list[list[list[tuple[int, float]]]] = []
        contexts = {(self._context[1], root): 0}
        follows: list[list[list[int]]] = []
        for _ in range(self.depth):
            level = [self._likeliest(context, common, width) for context in contexts]
            deeper: dict[Context, int] = {}
            follows.append([[deeper.setdefault((context[1], token), len(deeper)) for token, _ in row]
                            for context, row in zip(contexts, level, strict=True)])
            levels.append(level)
            contexts = deeper
        return _lattice(levels, follows, width)

    def fork(self) -> Self:
        """See ``plan.Drafter``; there are no weights to share."""
        return type(self)(self.vocabulary, self.depth, self.width)

    def release(self) -> None:
        self.begin(0)

    def _most_common(self, width: int) -> list[int]:
        """Tokens by their own count, seen ones first: enough for ``width`` tokens that no context has seen."""
        alone = self._tallies.alone
        return nsmallest(len(alone), alone, key=lambda token: (-alone[token], token)) + [
            token for token in range(min(self.vocabulary, len(alone) + width)) if token not in alone]

    def _likeliest(self, context: Context, common: list[int], width: int) -> list[tuple[int, float]]:
        """The ``width`` most likely tokens after a context with their probabilities, the lower id first if equal."""
        tallies = self._tallies
        pairs: Mapping[int, int] = tallies.pairs.get(context, {})
        singles: Mapping[int, int] = tallies.singles.get(context[1], {})
        followed, met = sum(pairs.values()) + 1, sum(singles.values()) + 1
        known = pairs.keys() | singles.keys()
        beyond = [token for token in common[:len(known) + width] if token not in known][:width]
        scored: list[tuple[float, int]] = []
        for token in (*known, *beyond):
            single = (tallies.alone.get(token, 0) + 1 / self.vocabulary) / (tallies.length + 1)
            behind_one = (singles.get(token, 0) + single) / met
            scored.append((-(pairs.get(token, 0) + behind_one) / followed, token))
        return [(token, -minus) for minus, token in nsmallest(width, scored)]


def _lattice(levels: list[list[list[tuple[int, float]]]], follows: list[list[list[int]]], width: int) -> Lattice:
    """The lattice of lists by depth, row and rank; rows that a depth does not have get probability 0."""
    shape = len(levels), max((len(level) for level in levels), default=1), width
    tokens, follow = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    logprobs = np.full(shape, -np.inf, np.float32)
    for depth, (level, leads) in enumerate(zip(levels, follows, strict=True)):
        cells = np.asarray(level)
        tokens[depth, :len(level)] = cells[..., 0]
        logprobs[depth, :len(level)] = np.log(cells[..., 1])
        if depth + 1 < len(levels):
            follow[depth, :len(level)] = leads
    return Lattice(tokens, np.minimum(logprobs, 0), follow)
