"""What a round shows of its drafters: the length that its tree expects, and which of their proposals were accepted.

A disjoint ``merged`` tree may hold a prefix twice. Here a prefix counts once, with the highest probability that a
drafter gives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from engine.lab.settings import AcceptanceCounts
from engine.records import DraftTree, Integers, Lattice, Round

RANKS = 16  # the last also counts all worse ranks


def expected_length(tree: DraftTree) -> float:
    """1 + Σ q over the distinct drafted prefixes: the length that the drafter expects (paper 002, section 4.2)."""
    beliefs = np.exp(tree.logprobs[1:], dtype=np.float64)
    siblings = tree.parents[1:].astype(np.int64) << 32 | tree.tokens[1:]
    if len(np.unique(siblings)) == len(siblings):
        return 1.0 + float(beliefs.sum())
    best: dict[int, float] = {}
    for prefix, belief in zip(_prefixes(tree), beliefs.tolist(), strict=True):
        best[prefix] = max(best.get(prefix, 0.0), belief)
    return 1.0 + sum(best.values())


def _prefixes(tree: DraftTree) -> list[int]:
    """For each drafted node, the first node that has the same tokens from the root on."""
    first = [0]
    places: dict[tuple[int, int], int] = {}
    for node, (token, parent) in enumerate(zip(tree.tokens[1:].tolist(), tree.parents[1:].tolist(), strict=True), 1):
        first.append(places.setdefault((first[parent], token), node))
    return first[1:]


def ended_by_text(made: Round) -> bool:
    """Whether the end of the text (a stop token, max_tokens) ended the walk before the tree did. The bonus token is
    then a drafted child of the last kept row."""
    *_, last = standings(made)
    return bool((made.tree.tokens[last] == made.acceptance.bonus).any())


def standings(made: Round) -> Iterator[NDArray[np.intp]]:
    """For each kept row, root first, the drafted nodes (n,) that continue its prefix, copies of the prefix included."""
    tree = made.tree
    here: NDArray[np.intp] = np.zeros(1, np.intp)
    for token in (*made.committed[1:].tolist(), None):
        below = np.flatnonzero(np.isin(tree.parents[1:], here)) + 1
        yield below
        here = below[tree.tokens[below] == token]


@dataclass
class AcceptanceTally:
    """Adds up ``AcceptanceCounts`` round by round."""

    reached: list[int] = field(default_factory=list)
    proposed: list[list[int]] = field(default_factory=list)
    accepted: list[list[int]] = field(default_factory=list)

    def add(self, made: Round) -> None:
        """Count a round, unless the end of the text ended its walk."""
        rows: list[int | None] = [0] * len(made.drafts)
        deepest = max((draft.depth for draft in made.drafts), default=0)
        path = made.tree.tokens[made.acceptance.keep].tolist()
        for depth, below in enumerate(standings(made)):
            if depth:
                rows = [step(draft, row, depth - 1, path[depth])
                        for draft, row in zip(made.drafts, rows, strict=True)]
            if depth >= deepest:
                return
            self._count(depth, ranks(made, rows, depth, below), path[depth + 1] if depth + 1 < len(path) else None)

    def _count(self, depth: int, found: dict[int, int], taken: int | None) -> None:
        while len(self.reached) <= depth:
            self.reached.append(0)
            self.proposed.append([0] * RANKS)
            self.accepted.append([0] * RANKS)
        self.reached[depth] += 1
        for rank in found.values():
            self.proposed[depth][rank] += 1
        if taken is not None:
            self.accepted[depth][found[taken]] += 1

    def counts(self) -> AcceptanceCounts:
        """The counts as a record."""
        return AcceptanceCounts(
            tuple(self.reached), tuple(map(tuple, self.proposed)), tuple(map(tuple, self.accepted)))


def ranks(made: Round, rows: list[int | None], depth: int, nodes: NDArray[np.intp]) -> dict[int, int]:
    """The best rank of each of these nodes' tokens among the drafters that propose it, ``RANKS`` − 1 at most."""
    found: dict[int, int] = {}
    for token, drafters in zip(made.tree.tokens[nodes].tolist(), made.tree.drafters[nodes].tolist(), strict=True):
        places = [place(draft, row, depth, token) for drafter, (draft, row) in enumerate(
            zip(made.drafts, rows, strict=True)) if drafters >> drafter & 1]
        known = [rank for rank in places if rank is not None]
        found[token] = min([found.get(token, RANKS - 1), *known])
    return found


def place(draft: Lattice, row: int | None, depth: int, token: int) -> int | None:
    """The rank of a token in a row of a drafter's lattice, or None where the row does not hold it."""
    if row is None or depth >= draft.depth:
        return None
    held: Integers = np.flatnonzero(draft.tokens[depth, row] == token).astype(np.int32)
    return int(held[0]) if len(held) else None


def step(draft: Lattice, row: int | None, depth: int, token: int) -> int | None:
    """The row at the next depth that a token leads to; with one row per depth, every path leads there."""
    if draft.tokens.shape[1] == 1:
        return 0
    rank = place(draft, row, depth, token)
    return None if rank is None or row is None else int(draft.follow[depth, row, rank])


def together(counts: list[AcceptanceCounts]) -> AcceptanceCounts:
    """The sum of several runs' counts."""
    return reduce(_plus, counts, AcceptanceCounts())


def _plus(one: AcceptanceCounts, other: AcceptanceCounts) -> AcceptanceCounts:
    short, long = sorted((one, other), key=lambda counts: len(counts.reached))
    size, missing = len(long.reached), len(long.reached) - len(short.reached)
    blank = ((0,) * RANKS,) * missing
    reached = np.asarray(long.reached, int) + np.asarray((*short.reached, *(0,) * missing), int)
    tables = [np.asarray(ours, int).reshape(size, RANKS) + np.asarray((*theirs, *blank), int).reshape(size, RANKS)
              for ours, theirs in ((long.proposed, short.proposed), (long.accepted, short.accepted))]
    return AcceptanceCounts(tuple(reached.tolist()), *(tuple(map(tuple, table.tolist())) for table in tables))
