"""Drafts from counts over the text itself, without a network. Torch-free.

Such a drafter costs next to nothing and sees its path, so it has one row per path (papers 000 and 001 score a node
given its path; paper 003 drafts with a bigram model).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush, nsmallest
from math import log
from typing import Self

import numpy as np

from engine.decoding.protocols import Features
from engine.records import Integers, Lattice

Context = tuple[int, ...]  # the last tokens of a path
Row = list[tuple[int, float]]  # next tokens and their probabilities


@dataclass
class Followers:
    """How often each token followed a context in the text, and how often any did."""

    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    total: int = 0


class TextCounts:
    """Counts of what followed each context in the text so far. ``priors``: by context length, the weight of the next
    shorter context's distribution, in occurrences."""

    def __init__(self, priors: Sequence[float]) -> None:
        self.priors = priors
        self.after: dict[Context, Followers] = defaultdict(Followers)
        self.tokens: list[int] = []
        self.counts: dict[int, int] = defaultdict(int)

    def context(self, *more: int) -> Context:
        """Return the context after appending ``more`` to the text: the last ``len(priors)`` tokens."""
        return (*self.tokens[-len(self.priors):], *more)[-len(self.priors):]

    def observe(self, token_ids: Integers) -> None:
        for token in token_ids.tolist():
            last = self.context()
            for length in range(1, len(last) + 1):
                followers = self.after[last[-length:]]
                followers.counts[token] += 1
                followers.total += 1
            self.tokens.append(token)
            self.counts[token] += 1

    def shifted(self, row: Row, context: Context) -> Row:
        """Shift the distribution after a context towards this text's counts; the result is unordered."""
        shares = dict(row)
        for length, prior in enumerate(self.priors[:len(context)], start=1):
            followers = self.after.get(context[-length:])
            if followers is None:
                break  # no longer context was seen either
            weight = followers.total + prior
            shares = {token: prior * share / weight for token, share in shares.items()}
            for token, count in followers.counts.items():
                shares[token] = shares.get(token, 0.0) + count / weight
        return list(shares.items())


def likeliest(row: Row, width: int) -> Row:
    """Return the ``width`` likeliest tokens in descending order, the lower id first among equals."""
    return nsmallest(width, row, key=lambda cell: (-cell[1], cell[0]))


def expand_best_paths(row_after: Callable[[Context], Row], text: TextCounts, root: int, paths: float,
                      max_depth: int) -> Lattice:
    """Return the lattice of the rows after the root and after the ``paths`` best paths, at most ``max_depth`` deep
    (paper 002, Algorithm 1, over conditionals). ``row_after`` gives the row after a context, likeliest first. The last
    row of each depth is empty; unexpanded cells point to it."""
    cells: list[tuple[int, int, int, int, float]] = []  # depth, row, rank, token, probability
    contexts: list[Context] = []  # of each cell's row
    follow: dict[int, int] = {}  # expanded cell -> row of its children
    rows = Counter[int]()  # by depth
    waiting: list[tuple[float, int]] = []  # −log probability of the path to a cell, and the cell

    def add_row(depth: int, context: Context, cost: float) -> int:
        row = rows[depth]
        rows[depth] += 1
        for rank, (token, share) in enumerate(row_after(context)):
            heappush(waiting, (cost - log(share), len(cells)))
            cells.append((depth, row, rank, token, share))
            contexts.append(context)
        return row

    add_row(0, text.context(root), 0.0)
    while waiting and paths > 0:
        paths -= 1
        cost, cell = heappop(waiting)
        depth, _, _, token, _ = cells[cell]
        if depth + 1 < max_depth:
            follow[cell] = add_row(depth + 1, (*contexts[cell], token)[-len(text.priors):], cost)

    shape = len(rows), max(rows.values()) + 1, max((rank + 1 for _, _, rank, _, _ in cells), default=1)
    lattice = Lattice(
        np.zeros(shape, np.int32), np.full(shape, -np.inf, np.float32), np.full(shape, shape[1] - 1, np.int32))
    if cells:
        *where, tokens, shares = map(np.asarray, zip(*cells, strict=True))
        lattice.tokens[*where], lattice.logprobs[*where] = tokens, np.minimum(np.log(shares), 0.0)
        expanded = list(follow)
        lattice.follow[tuple(axis[expanded] for axis in where)] = list(follow.values())
    return lattice


class TextDrafter:
    """A drafter that proposes by the counts of the text so far; ``priors`` are those of ``TextCounts``."""

    priors: Sequence[float]
    _text: TextCounts

    def begin(self, rows: int) -> None:
        self._text = TextCounts(self.priors)

    def observe(self, token_ids: Integers, features: Features) -> None:
        self._text.observe(token_ids)

    def release(self) -> None:
        self.begin(0)

    def fork(self) -> Self:
        other = copy(self)
        other.release()
        return other


class NGramDrafter(TextDrafter):
    """Trigrams that back off to bigrams and single tokens, with one pseudo-count for the next shorter context.

    P(t | a b) = (n(a b t) + P(t | b)) / (n(a b) + 1), P(t | b) likewise over P(t), and P(t) = (n(t) + 1 / V) / (N + 1):
    normalised over the whole vocabulary of V tokens.
    """

    priors = (1.0, 1.0)

    def __init__(self, vocabulary: int, depth: int = 5, width: int = 2) -> None:
        self.vocabulary, self.depth, self.width = vocabulary, depth, min(width, vocabulary)
        self.release()

    def draft(self, root: int, width: int) -> Lattice:
        """See ``protocols.Drafter``: min(width, own width) tokens per row, and a row for every path."""
        width, counts, size = min(width, self.width), self._text.counts, len(self._text.tokens)
        unseen = (token for token in range(min(self.vocabulary, len(counts) + width)) if token not in counts)
        common = [*sorted(counts, key=lambda token: (-counts[token], token)), *unseen]

        @cache  # paths often end alike
        def row_after(context: Context) -> Row:
            followers = self._text.after.get(context[-1:])
            counts_after = followers.counts if followers else {}
            others = [token for token in common[:len(counts_after) + width] if token not in counts_after][:width]
            alone = [(token, (counts.get(token, 0) + 1 / self.vocabulary) / (size + 1))
                     for token in (*counts_after, *others)]
            return likeliest(self._text.shifted(alone, context), width)
        return expand_best_paths(row_after, self._text, root, np.inf, self.depth)
