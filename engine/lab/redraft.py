"""Other trees of the same drafts at the same places: what a chain, a wider chain, and trees with and without the
drafter's transitions would have kept. The text after each place is known, so nothing is modelled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.decoding.builders.best_first import best_first
from engine.decoding.builders.chain import best_rows, chain
from engine.decoding.methods import METHODS
from engine.decoding.tree import plant
from engine.lab.statistics import Measured, mean_of
from engine.lab.whatif import KnownText
from engine.records import DraftTree, Lattice, Round
from engine.trace import Trace, committed_ids

CHAIN, WIDE, MARGINALS, TRANSITIONS = "chain", "wider chain", "tree by marginals", "tree by transitions"
MOST_PLACES = 300  # of a run, evenly over it: other trees of so many take about a second
SIZES = (2, 4, 8, 12, 16, 24, 32, 64, 128)  # of drafted nodes


@dataclass(frozen=True)
class RedraftedLength:
    """One kind of tree over one drafter's drafts at one budget: how many drafted tokens a round keeps, and how many
    more than the chain of as many nodes at most (``over_chain``, pairs of the same places)."""

    drafter: str
    kind: str
    budget: int
    accepted: Measured
    over_chain: Measured


def redrafted(counted: Sequence[tuple[Trace, Sequence[Round]]]) -> tuple[tuple[RedraftedLength, ...], tuple[str, ...]]:
    """Every kind at every size that the recorded rows are wide enough for, by drafter; and what is left out, in
    sentences."""
    lengths: dict[str, dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    lacking: dict[str, None] = {}
    for trace, rounds in counted:
        known = _known_text(trace)
        if isinstance(known, str):
            lacking[known] = None
            continue
        for drafter, name in enumerate(trace.header.drafters[:len(rounds[0].drafts)]):
            for round_ in rounds[::-(-len(rounds) // MOST_PLACES)]:
                for cell, length in _lengths(round_, drafter, known).items():
                    lengths[name][cell].append(length)
    names = {name for name, cells in lengths.items() if not any(kind == TRANSITIONS for kind, _ in cells)}
    if names:
        drafters = " and ".join(sorted(names))
        lacking[f"Marginals are all that {drafters} proposes, so there is no tree by transitions."] = None
    return tuple(RedraftedLength(name, kind, budget, mean_of(kept), mean_of(
        np.subtract(kept, cells[CHAIN, budget]).tolist())) for name, cells in lengths.items()
        for (kind, budget), kept in cells.items()), tuple(lacking)


def _known_text(trace: Trace) -> KnownText | str:
    """The run's text with the token that follows it; or why what the target would have written after a place is not
    known, in a sentence."""
    method = METHODS.get(trace.header.request.method)
    if method and not method.follows_text:
        return f"The method {trace.header.request.method} draws its own text, so no other tree is tried over it."
    rounds = [entry.round for entry in trace.entries]
    if trace.header.every > 1 or trace.end.dropped or trace.end.refused or any(
            after.start != before.start + len(before.acceptance.keep) for before, after in pairwise(rounds)):
        return "Rounds are missing from a recording, so no other tree is tried over its text."
    token_ids = [*committed_ids(rounds), rounds[-1].acceptance.bonus]
    return KnownText(np.asarray(token_ids, np.int32), rounds[0].start, trace.header.context_limit)


def _lengths(round_: Round, drafter: int, known: KnownText) -> Mapping[tuple[str, int], int]:
    """The kept drafted tokens by kind and size; none where the end of the text would have cut one of them."""
    place, lattice = round_.start - known.start, round_.drafts[drafter]
    root, left = int(known.token_ids[place]), len(known.token_ids) - place
    widest = max(lattice.tokens.shape[2], lattice.depth)
    sizes = [size for size in SIZES if size <= widest]
    whole = len(known.agreed(place, chain(lattice, root, lattice.depth))) - 1
    lengths = {(CHAIN, size): min(whole, size) for size in sorted({*sizes, *range(1, lattice.depth + 1)})}
    lengths |= {(kind, size): len(known.agreed(place, tree)) - 1
              for size in sizes for kind, tree in branching(lattice, root, size).items()}
    return {} if max(lengths.values(), default=0) >= left - 1 else lengths


def branching(lattice: Lattice, root: int, nodes: int) -> dict[str, DraftTree]:
    """The trees of a lattice by kind, chains apart, each of so many drafted nodes or fewer."""
    trees = {WIDE: wide_chain(lattice, root, nodes)}
    if lattice.tokens.shape[1] == 1:
        return {**trees, MARGINALS: best_first(lattice, root, nodes)}
    return {**trees, MARGINALS: best_first(marginals_of(lattice), root, nodes),
            TRANSITIONS: best_first(lattice, root, nodes)}


def wide_chain(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """The most probable prefixes that leave the chain of first proposals at most in their last token."""
    rows = best_rows(lattice)
    steps = lattice.logprobs[np.arange(lattice.depth), rows]
    spine = np.concatenate([[np.float32(0)], steps[:-1, 0].cumsum(dtype=np.float32)])
    scores = (spine[:, None] + steps).astype(np.float32)
    order = (-scores).ravel().argsort(kind="stable")[:nodes]
    order = order[np.isfinite(scores.ravel()[order])]
    at, rank = np.divmod(order, scores.shape[1])
    on_spine = np.flatnonzero(rank == 0)
    places = np.zeros(lattice.depth + 1, np.int32)
    places[at[on_spine] + 1] = on_spine + 1
    return plant(root, lattice.tokens[at, rows[at], rank], places[at], scores.ravel()[order])


def marginals_of(lattice: Lattice) -> Lattice:
    """What a lattice of several rows a depth says of each position alone: its rows' probabilities, each weighed by the
    probability of the paths that lead to it, summed by token. One row a depth, as wide as before."""
    depth, rows, width = lattice.tokens.shape
    tokens = np.zeros((depth, 1, width), np.int32)
    logprobs = np.full((depth, 1, width), -np.inf, np.float32)
    mass: NDArray[np.float64] = np.zeros(rows)
    mass[0] = 1.0
    for level in range(depth):
        weights = mass[:, None] * np.exp(lattice.logprobs[level].astype(np.float64))
        names, places = np.unique(lattice.tokens[level], return_inverse=True)
        sums = np.bincount(places.ravel(), weights.ravel())
        best = (-sums).argsort(kind="stable")[:width]
        tokens[level, 0, :len(best)] = names[best]
        with np.errstate(divide="ignore"):
            logprobs[level, 0, :len(best)] = np.log(np.minimum(sums[best], 1))
        mass = np.bincount(lattice.follow[level].ravel(), weights.ravel(), rows).astype(np.float64)
    return Lattice(tokens, logprobs, np.zeros_like(tokens))
