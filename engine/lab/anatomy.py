"""Where a tree pays: why rounds ended, and the accepted tokens per verified row, of this tree and of others.

Ranks count from 0 in code and from 1 in sentences.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

import numpy as np

from engine.budget.auto import best_order
from engine.lab.reading import ended_by_text, rows_along
from engine.lab.redraft import CHAIN, CountedRuns, RedraftedLength, redraft_kinds
from engine.lab.replay import drafter_names
from engine.lab.statistics import Measured, mean_of, share_of
from engine.records import Lattice, Round
from engine.trace import Trace

MIN_UNDRAFTED_ROUNDS = 16  # at the end of a run; fewer are not reported
ENOUGH_FRACTION = 0.98  # a tree with this fraction of the largest one's accepted tokens counts as equally good
FEW_CASES = 20  # shares over fewer cases are marked "few"
ORDINALS = ("first", "second", "third", "fourth")
Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class Anatomy:
    """Statistics of recorded runs. Accepted tokens exclude the root and are per round."""

    runs: int
    rounds: int  # without those that drafted nothing or that the end of the text cut short
    misses: dict[str, dict[str, Measured]]  # by drafter: share of rounds by the rank that it gave their last token
    by_rank: dict[int, Measured]  # accepted tokens per verified row, by rank among siblings of the tree, from 0
    by_drafter: dict[str, Measured]  # the same by the drafters that proposed the row; empty for one drafter
    first_nodes: dict[int, Measured]  # accepted tokens if only the n most probable nodes were verified, by n
    redrafts: tuple[RedraftedLength, ...]  # other trees from the same drafts, at the same positions
    omissions: tuple[str, ...]  # sentences about statistics that could not be computed
    kinds: Mapping[str, str]  # of drafters, such as eagle3, if a trace names them


def anatomy(traces: Sequence[Trace]) -> Anatomy:
    """Analyse these runs together; drafters of the same name count as one."""
    counted = []
    for trace in traces:
        complete = [] if trace.header.chunked else trace.rounds
        if complete and ended_by_text(complete[-1]):
            complete = complete[:-1]
        counted.append((trace, [round_ for round_ in complete if len(round_.tree) > 1]))
    rounds = [round_ for _, kept in counted for round_ in kept]
    redrafts, omissions = redraft_kinds([(trace, kept) for trace, kept in counted if kept])
    rows = [row for trace, kept in counted for round_ in kept for row in _verified_rows(trace, round_)]
    by_drafter = _shares((names, kept) for _, names, kept in rows)
    largest = max((len(round_.tree) - 1 for round_ in rounds), default=0)
    sizes = sorted({min(2**power, largest) for power in range(largest.bit_length() + 1)} - {0})
    return Anatomy(
        runs=len(traces), rounds=len(rounds), misses=_misses(counted),
        by_rank=_shares((rank, kept) for rank, _, kept in rows), by_drafter=by_drafter if len(by_drafter) > 1 else {},
        first_nodes={size: mean_of([kept_of_first(round_, size) for round_ in rounds]) for size in sizes},
        redrafts=redrafts, omissions=(*_omissions(counted), *omissions),
        kinds={name: kind for trace in traces
               for name, kind in zip(drafter_names(trace), trace.header.drafter_kinds, strict=False)})


def _shares(hits: Iterable[tuple[Key, bool]]) -> dict[Key, Measured]:
    grouped: dict[Key, list[bool]] = defaultdict(list)
    for key, hit in hits:
        grouped[key].append(hit)
    return {key: share_of(sum(grouped[key]), len(grouped[key])) for key in sorted(grouped)}


def _misses(counted: CountedRuns) -> dict[str, dict[str, Measured]]:
    places: dict[str, Counter[str]] = defaultdict(Counter)
    for trace, rounds in counted:
        names = drafter_names(trace)
        for round_ in rounds:
            path = [*round_.committed[1:].tolist(), round_.acceptance.bonus]
            for name, draft in zip(names, round_.drafts, strict=False):
                places[name][_place_of_last(draft, path)] += 1
    return {name: {place: share_of(count, counts.total()) for place, count in sorted(counts.items())}
            for name, counts in places.items()}


def _place_of_last(draft: Lattice, path: Sequence[int]) -> str:
    """Return the rank of the path's last token in the drafter's row, in words."""
    rows = list(rows_along(draft, path))
    if len(rows) < len(path):
        return "past its last place" if len(rows) == draft.depth else "on a path that it did not propose"
    row = rows[len(path) - 1]
    if path[-1] not in row:
        return f"in none of its {len(row)}"
    return {0: "1st, cut by the budget", 1: "2nd", 2: "3rd"}.get(row.index(path[-1]), "4th or worse")


def _verified_rows(trace: Trace, round_: Round) -> Iterator[tuple[int, str, bool]]:
    """Yield (rank among siblings, names of its drafters, whether accepted) for each drafted row."""
    tree, kept, siblings = round_.tree, set(round_.acceptance.keep.tolist()), Counter[int]()
    for node, (parent, mask) in enumerate(zip(tree.parents.tolist(), tree.drafters.tolist(), strict=True)):
        if node:
            names = [name for bit, name in enumerate(trace.header.drafters) if mask >> bit & 1]
            yield siblings[parent], " and ".join(names) or "its drafter", node in kept
            siblings[parent] += 1


def kept_of_first(round_: Round, nodes: int) -> int:
    """Count the drafted tokens that a round would accept with only its ``nodes`` most probable nodes."""
    tree, keep = round_.tree, round_.acceptance.keep[1:]
    order = best_order(tree) if np.isfinite(tree.logprobs).all() else np.arange(len(tree))
    rank = np.empty(len(tree), np.int64)
    rank[order] = np.arange(len(tree))
    return int(np.logical_and.accumulate(rank[keep] <= nodes).sum())


def _omissions(counted: CountedRuns) -> Iterator[str]:
    if not any(rounds for _, rounds in counted):
        yield "No round drafted anything, so there is nothing to take apart."
        return
    undrafted = max(sum(1 for _ in takewhile(lambda entry: len(entry.round.tree) == 1, reversed(trace.entries)))
                    for trace, _ in counted)
    if undrafted >= MIN_UNDRAFTED_ROUNDS:
        yield (f"The last {undrafted} rounds of a run drafted nothing: speculation was switched off there, or fell "
               "back to plain decoding.")
    chunked = sum(trace.header.chunked for trace, _ in counted)
    if chunked:
        yield f"{chunked} of the runs do not say which tokens came in one round, and are left out."
    without_drafts = sum(bool(rounds) and not rounds[0].drafts for _, rounds in counted)
    if without_drafts:
        yield (f"{without_drafts} of the runs do not hold what the drafter proposed, so the rank of a rejected token "
               "is unknown there, no other tree is tried, and a rank is the place among siblings of the tree.")


def sentences(anatomy: Anatomy) -> dict[str, list[str]]:
    """Describe the statistics in sentences, by topic. Other trees are those of the largest comparable budget."""
    by_topic: dict[str, list[str]] = defaultdict(list)
    for drafter, misses in anatomy.misses.items():
        walks = max(share.count for share in misses.values())
        parts = [f"{place} {share.value:.0%} ({share.low:.0%} to {share.high:.0%})"
                 for place, share in sorted(misses.items(), key=lambda pair: -pair[1].value)]
        by_topic["misses"].append(f"Where {drafter} ranked the token that the target chose instead ({walks} rounds"
                                  f"{', few' if walks < FEW_CASES else ''}): {'; '.join(parts)}.")
    siblings = {f"{ordinal} siblings": share
                for ordinal, share in zip(ORDINALS, anatomy.by_rank.values(), strict=False)}
    for topic, lead, shares in (("rows", "a verified row", siblings if len(siblings) > 1 else {}),
                                ("drafters", "a row, by who proposed it", anatomy.by_drafter)):
        if shares:
            by_topic[topic].append(f"Tokens earned by {lead}: " + ", ".join(
                f"{name} {share} of {share.count} rows" for name, share in shares.items()) + ".")
    by_topic["nodes"] = _node_words(anatomy.first_nodes)
    for drafter in dict.fromkeys(row.drafter for row in anatomy.redrafts):
        rows = [row for row in anatomy.redrafts if row.drafter == drafter]
        positions = max(row.accepted.count for row in rows)
        budget = max(row.budget for row in rows if row.accepted.count == positions)
        kinds = {row.kind: row for row in rows if row.budget == budget}
        chain = kinds[CHAIN]
        by_topic["trees"].append(
            f"With {chain.budget} nodes of {drafter} at the same {chain.accepted.count} places: "
            + ", ".join(f"{kind} {row.accepted}" for kind, row in kinds.items()) + " drafted tokens a round.")
        for row in (row for kind, row in kinds.items() if kind.startswith("tree")):
            tau, gain = 1 + chain.accepted.value, row.gain_over_chain
            sure = "" if gain.low > 0 or gain.high < 0 else ", which may be none"
            by_topic["branching"].append(
                f"With {row.budget} nodes of {drafter} branching was worth {gain} tokens a round to the {row.kind}"
                f"{sure}: {gain.value / tau:+.0%} of the chain's τ of {tau:.2f}.")
    by_topic["omissions"] = list(anatomy.omissions)
    return {topic: lines for topic, lines in by_topic.items() if lines}


def _node_words(first_nodes: Mapping[int, Measured]) -> list[str]:
    sizes = list(first_nodes)
    if len(sizes) < 2:
        return []
    last, before = sizes[-1], sizes[-2]
    all_nodes, fewer = first_nodes[last], first_nodes[before]
    enough = next(size for size in sizes if first_nodes[size].value >= ENOUGH_FRACTION * all_nodes.value)
    lines = [f"Trees of up to {last} nodes: {all_nodes} accepted tokens a round. The first node adds "
             f"{first_nodes[sizes[0]].value:.2f}, each node beyond {before} adds "
             f"{(all_nodes.value - fewer.value) / (last - before):.3f}."]
    if enough < last:
        lines.append(f"Here {enough} nodes are as good as {last}: {first_nodes[enough].value:.2f} are accepted.")
    return lines
