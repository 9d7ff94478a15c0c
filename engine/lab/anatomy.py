"""Where a tree pays: which proposals the target took in recorded runs, where, and what each verified row earned.

It needs traces and nothing else. What a trace lacks is left out, and said. The figures come with sentences.

A drafter's *row* is its list of proposals after one token of the path that the target took, best first. The *greedy
path* is the path of first proposals. Ranks count from 0 in the code and from 1 in sentences: the second proposal has
rank 1.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from statistics import fmean
from typing import TypeVar

import numpy as np

from engine.budget.auto import best_order
from engine.decoding.tree import depths
from engine.lab.reading import ended_by_text, rows_along
from engine.lab.redraft import CHAIN, Counted, RedraftedLength, redraft_kinds
from engine.lab.replay import drafter_names
from engine.lab.statistics import Measured, mean_of, share_of
from engine.records import Round
from engine.trace import RunText, Trace, as_bytes, committed_ids, pieces_of

POSITION_BINS = (0, 16, 64, 256, 1024, 4096)  # first text position of each
MIN_SILENT_ROUNDS = 16  # rounds without a draft at the end of a run that are worth a sentence
AS_GOOD = 0.98  # a smaller tree that keeps this fraction of the whole tree's tokens does as well
CODE, DIGITS, PROSE = "code", "digits", "prose"
CODE_LINE = re.compile(
    rb"^\s*(def|class|return|import|from \S+ import|for|while|if|elif|else|try|with|const|let|var|function|#include)\b"
    rb".*[:;(){}=]|[;{}]\s*$|^(    |\t)\s*\S|\w\([^ ].*\)\s*$|\w\(\)")
FENCE = b"```"
MIN_DIGITS = 0.2  # fraction of a line's characters, without spaces, that makes it a line of digits
FEW = 20  # a share of fewer cases is marked as such
MAX_RANK = 3  # a worse sibling counts as this one
ORDINALS = ("first", "second", "third", "fourth")
Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class TargetChoice:
    """The target's token after one kept row, looked up in one drafter's row."""

    depth: int  # 1 directly after the root
    rank: int | None  # index in the drafter's row; None if the row lacks it
    parent_rank: int | None  # the same of the token before it; 0 for the root
    greedy: bool  # all tokens before it were first proposals
    in_tree: bool


@dataclass(frozen=True)
class DrafterAnatomy:
    """One drafter's proposals along the target's paths."""

    name: str
    misses: dict[str, Measured]  # where the walk ended: share of rounds by where the target's token was in the row
    greedy_path: tuple[Measured, ...]  # by depth from 1: first proposal right, after first proposals only
    after_sibling: dict[int, Measured]  # the same after an accepted proposal of another rank, up to MAX_RANK
    expected: float | None  # acceptance on the greedy path, averaged over the depths of these cases


@dataclass(frozen=True)
class Anatomy:
    """The figures of some recorded runs.

    Tokens earned per verified row are the share of such rows that were kept. Accepted tokens are drafted ones, per
    round.
    """

    runs: int
    rounds: int  # that drafted, without those cut short by the end of the text
    drafters: tuple[DrafterAnatomy, ...]
    by_rank: dict[int, Measured]  # tokens earned per row, by rank among siblings of the tree, from 0
    by_depth: dict[int, Measured]  # the same, by depth from 1
    by_drafter: dict[str, Measured]  # the same, by the drafters that propose the row
    first_nodes: dict[int, Measured]  # accepted tokens with only the n most probable nodes of each tree, by n
    redrafts: tuple[RedraftedLength, ...]  # other trees of the same drafts at the same positions
    by_position: dict[int, Measured]  # accepted tokens, by the position bin in which the round begins
    by_kind: dict[str, Measured]  # accepted tokens, by the kind of the line in which the round begins
    lacking: tuple[str, ...]  # what is left out and why, in sentences

    @property
    def accepted(self) -> Measured | None:
        """Accepted drafted tokens of a round with whole trees; None without a round."""
        return self.first_nodes[max(self.first_nodes)] if self.first_nodes else None


def anatomy(traces: Sequence[Trace]) -> Anatomy:
    """The anatomy of these runs together; drafters of the same name are one."""
    counted = [(trace, counted_rounds(trace)) for trace in traces]
    rounds = [round_ for _, kept in counted for round_ in kept]
    redrafts, lacking = redraft_kinds([(trace, kept) for trace, kept in counted if kept])
    by_rank, by_depth, by_drafter = _tokens_per_row(counted)
    by_position, by_kind = _accepted_by_text(counted)
    return Anatomy(
        runs=len(traces), rounds=len(rounds), drafters=_drafters(counted), by_rank=by_rank, by_depth=by_depth,
        by_drafter=by_drafter, first_nodes=_first_nodes(rounds), redrafts=redrafts, by_position=by_position,
        by_kind=by_kind, lacking=(*_lacking(counted), *lacking))


def counted_rounds(trace: Trace) -> list[Round]:
    """The rounds that drafted, without a last one that the end of the text cut short."""
    rounds = [entry.round for entry in trace.entries]
    if trace.header.chunked:
        return []
    whole = rounds[:-1] if rounds and ended_by_text(rounds[-1]) else rounds
    return [round_ for round_ in whole if len(round_.tree) > 1]


def _by_key(pairs: Iterable[tuple[Key, float]]) -> dict[Key, list[float]]:
    grouped: dict[Key, list[float]] = defaultdict(list)
    for key, value in pairs:
        grouped[key].append(value)
    return {key: grouped[key] for key in sorted(grouped)}


def _shares(hits: Iterable[tuple[Key, bool]]) -> dict[Key, Measured]:
    return {key: share_of(int(sum(of_key)), len(of_key)) for key, of_key in _by_key(hits).items()}


def _means(values: Iterable[tuple[Key, float]]) -> dict[Key, Measured]:
    return {key: mean_of(of_key) for key, of_key in _by_key(values).items()}


def target_choices(rows: Iterable[Sequence[int]], path: Sequence[int | None]) -> Iterator[TargetChoice]:
    """Look up each token of the target's path in the drafter's row there, as far as there are rows."""
    parent_rank: int | None = 0
    greedy = True
    for depth, (token, row) in enumerate(zip(path, rows, strict=False), 1):
        rank = row.index(token) if token in row else None
        yield TargetChoice(depth, rank, parent_rank, greedy, in_tree=depth < len(path))
        parent_rank = rank
        greedy = greedy and rank == 0


def rows_in_tree(round_: Round) -> Iterator[list[int]]:
    """The children of each kept node, in place of the proposals that an engine did not record."""
    tree = round_.tree
    for node in round_.acceptance.keep:
        children = tree.tokens[1:][tree.parents[1:] == node].tolist()
        if not children:
            return
        yield children


def _drafters(counted: Counted) -> tuple[DrafterAnatomy, ...]:
    """Each drafter by name. A recording without drafts counts as a drafter named after its engine."""
    walks: dict[str, list[list[TargetChoice]]] = defaultdict(list)
    misses: dict[str, Counter[str]] = defaultdict(Counter)
    for trace, rounds in counted:
        names = drafter_names(trace)
        for round_ in rounds:
            if not round_.drafts:
                name = trace.header.engine or trace.header.request.method
                walks[name].append(list(target_choices(rows_in_tree(round_), [*round_.committed[1:].tolist(), None])))
            path = [*round_.committed[1:].tolist(), round_.acceptance.bonus]
            for name, draft in zip(names, round_.drafts, strict=False):
                walk = list(target_choices(rows_along(draft, path), path))
                walks[name].append(walk)
                misses[name][_miss(walk, draft.depth, draft.tokens.shape[2])] += 1
    return tuple(_drafter(name, rounds, misses.get(name, Counter())) for name, rounds in walks.items())


def _miss(walk: Sequence[TargetChoice], deepest: int, width: int) -> str:
    """Name the place of the target's token in the drafter's row at the end of a walk."""
    last = walk[-1]
    if last.in_tree:
        return "past its last place" if last.depth == deepest else "on a path that it did not propose"
    if last.rank is None:
        return f"in none of its {width}"
    return {0: "1st, cut by the budget", 1: "2nd", 2: "3rd"}.get(last.rank, "4th or worse")


def _drafter(name: str, walks: Sequence[Sequence[TargetChoice]], misses: Counter[str]) -> DrafterAnatomy:
    choices = [choice for walk in walks for choice in walk]
    greedy_path = _shares((choice.depth, choice.rank == 0) for choice in choices if choice.greedy)
    after = [choice for choice in choices if choice.parent_rank]
    expected = [greedy_path[choice.depth].value for choice in after if choice.depth in greedy_path]
    return DrafterAnatomy(
        name=name,
        misses={place: share_of(count, misses.total()) for place, count in sorted(misses.items())},
        greedy_path=tuple(greedy_path.values()),
        after_sibling=_shares((min(choice.parent_rank or 0, MAX_RANK), choice.rank == 0) for choice in after),
        expected=fmean(expected) if expected else None)


def _tokens_per_row(counted: Counted) -> tuple[dict[int, Measured], dict[int, Measured], dict[str, Measured]]:
    """Kept over verified rows, by rank among siblings, by depth, and by drafters if there are several."""
    rows = [row for trace, rounds in counted for round_ in rounds for row in _verified_rows(trace, round_)]
    by_rank = _shares((rank, kept) for rank, _, _, kept in rows)
    by_depth = _shares((depth, kept) for _, depth, _, kept in rows)
    by_drafter = _shares((names, kept) for _, _, names, kept in rows)
    return by_rank, by_depth, by_drafter if len(by_drafter) > 1 else {}


def _verified_rows(trace: Trace, round_: Round) -> Iterator[tuple[int, int, str, bool]]:
    """Yield (rank among siblings, depth, drafters' names, kept) of each drafted row."""
    tree, kept, siblings = round_.tree, set(round_.acceptance.keep.tolist()), Counter[int]()
    rows = zip(tree.parents.tolist(), depths(tree.parents).tolist(), tree.drafters.tolist(), strict=True)
    for node, (parent, depth, mask) in enumerate(rows):
        if node:
            yield siblings[parent], depth, _names(trace.header.drafters, mask), node in kept
            siblings[parent] += 1


def _names(drafters: Sequence[str], mask: int) -> str:
    return " and ".join(name for bit, name in enumerate(drafters) if mask >> bit & 1) or "its drafter"


def _first_nodes(rounds: Sequence[Round]) -> dict[int, Measured]:
    """Accepted tokens by number of nodes. Any prefix of the order by probability is a tree, so its walk is known."""
    largest = max((len(round_.tree) - 1 for round_ in rounds), default=0)
    sizes = {min(2**power, largest) for power in range(largest.bit_length() + 1)} - {0}
    return _means((size, kept_of_first(round_, size)) for size in sizes for round_ in rounds)


def kept_of_first(round_: Round, nodes: int) -> int:
    """Count the drafted tokens that the round would have accepted with its ``nodes`` most probable nodes alone."""
    tree, keep = round_.tree, round_.acceptance.keep[1:]
    order = best_order(tree) if np.isfinite(tree.logprobs).all() else np.arange(len(tree))
    rank = np.empty(len(tree), np.int64)
    rank[order] = np.arange(len(tree))
    return int(np.logical_and.accumulate(rank[keep] <= nodes).sum())


def _accepted_by_text(counted: Counted) -> tuple[dict[int, Measured], dict[str, Measured]]:
    """Accepted tokens of a round, by the position in the text and by the kind of line at which it begins."""
    by_position, by_kind = [], []
    for trace, rounds in counted:
        lengths = [len(entry.round.acceptance.keep) for entry in trace.entries]
        starts = dict(zip((entry.round.index for entry in trace.entries), accumulate([0, *lengths]), strict=False))
        kinds = kinds_of(trace)
        for round_ in rounds:
            accepted, position = len(round_.acceptance.keep) - 1, starts[round_.index]
            by_position.append((max(start for start in POSITION_BINS if start <= position), accepted))
            if position < len(kinds):
                by_kind.append((kinds[position], accepted))
    return _means(by_position), _means(by_kind)


def kinds_of(trace: Trace) -> list[str]:
    """The kind of line in which each token begins; empty if the trace has no texts of its tokens.

    ``code``: in a fence, or the line looks like a statement. ``digits``: a fifth of its characters are. Else ``prose``.
    """
    named, ids = pieces_of(trace), committed_ids(entry.round for entry in trace.entries)
    if any(token not in named for token in ids):
        return []
    tokens = list(map(as_bytes, RunText(trace.lines).pieces))
    ends = list(accumulate(map(len, tokens), initial=0))
    kinds, fenced = [], False
    for line in b"".join(tokens).split(b"\n"):
        kind = CODE if fenced or FENCE in line else line_kind(line)
        fenced ^= FENCE in line
        kinds += [kind] * (len(line) + 1)
    return [kinds[min(end, len(kinds) - 1)] for end in ends[:-1]]


def line_kind(line: bytes) -> str:
    """The kind of a line outside a fence; see ``kinds_of``."""
    if CODE_LINE.search(line):
        return CODE
    signs = b"".join(line.split())
    digits = sum(sign in b"0123456789" for sign in signs)
    return DIGITS if digits >= MIN_DIGITS * max(1, len(signs)) else PROSE


def _lacking(counted: Counted) -> Iterator[str]:
    """Say what these traces do not hold."""
    if not any(rounds for _, rounds in counted):
        yield "No round drafted anything, so there is nothing to take apart."
        return
    silent = max(sum(1 for _ in takewhile(lambda entry: len(entry.round.tree) == 1, reversed(trace.entries)))
                 for trace, _ in counted)
    if silent >= MIN_SILENT_ROUNDS:
        yield (f"The last {silent} rounds of a run drafted nothing: speculation was switched off there, or fell "
               "back to plain decoding.")
    chunked = sum(trace.header.chunked for trace, _ in counted)
    if chunked:
        yield f"{chunked} of the runs do not say which tokens came in one round, and are left out."
    without_drafts = sum(bool(rounds) and not rounds[0].drafts for _, rounds in counted)
    if without_drafts:
        yield (f"{without_drafts} of the runs do not hold what the drafter proposed, so the rank of a missed token is "
               "unknown there, no other tree is tried, and a rank is the place among siblings of the tree.")
    if any(rounds and not kinds_of(trace) for trace, rounds in counted):
        yield "Some tokens have no text, so acceptance by kind of text is left out."


def sentences(anatomy: Anatomy) -> dict[str, list[str]]:
    """The sentences under each figure: misses, siblings, rows, nodes, trees, text; and what is lacking."""
    words = {"misses": [line for drafter in anatomy.drafters for line in _misses(drafter)],
             "siblings": [line for drafter in anatomy.drafters for line in _siblings(drafter)],
             "rows": list(_rows(anatomy)), "nodes": list(_nodes(anatomy)), "trees": list(_trees(anatomy.redrafts)),
             "text": list(_text(anatomy)), "lacking": list(anatomy.lacking)}
    return {name: lines for name, lines in words.items() if lines}


def percent(share: Measured) -> str:
    """Print a share with its interval and its number of cases."""
    few = ", few" if share.count < FEW else ""
    return f"{share.value:.0%} ({share.low:.0%} to {share.high:.0%} of {share.count}{few})"


def _misses(drafter: DrafterAnatomy) -> Iterator[str]:
    if not drafter.misses:
        return
    parts = [f"{place} in {percent(share)}" for place, share in
             sorted(drafter.misses.items(), key=lambda pair: -pair[1].value)]
    yield f"When the walk of a round ended, the target's token was in {drafter.name}'s row: {'; '.join(parts)}."


def _siblings(drafter: DrafterAnatomy) -> Iterator[str]:
    if drafter.greedy_path:
        yield (f"On its greedy path {drafter.name}'s first proposal was right " + ", ".join(
            f"at depth {depth} in {percent(share)}" for depth, share in enumerate(drafter.greedy_path[:3], 1)) + ".")
    beside = ""
    if drafter.expected is not None:
        beside = f"; at those depths of the greedy path it was right in {drafter.expected:.0%}"
    for rank, share in drafter.after_sibling.items():
        more = " or worse" if rank == MAX_RANK else ""
        yield (f"After an accepted {ORDINALS[rank]}{more} proposal {drafter.name}'s next one was right in "
               f"{percent(share)}{beside}.")


def _rows(anatomy: Anatomy) -> Iterator[str]:
    def earned(name: str, share: Measured) -> str:
        return f"{name} {share.value:.2f} ({share.low:.2f} to {share.high:.2f}, {share.count} rows)"

    if len(anatomy.by_rank) > 1:
        yield "Tokens earned by a verified row: " + ", ".join(
            earned(f"{ORDINALS[rank]} siblings", anatomy.by_rank[rank]) for rank in list(anatomy.by_rank)[:4]
            if rank < len(ORDINALS)) + "."
    if anatomy.by_drafter:
        yield "By who proposed the row: " + ", ".join(
            earned(name, share) for name, share in anatomy.by_drafter.items()) + "."


def _nodes(anatomy: Anatomy) -> Iterator[str]:
    sizes = list(anatomy.first_nodes)
    if len(sizes) < 2:
        return
    last, before = sizes[-1], sizes[-2]
    whole, less = anatomy.first_nodes[last], anatomy.first_nodes[before]
    enough = next(size for size in sizes if anatomy.first_nodes[size].value >= AS_GOOD * whole.value)
    yield (f"Whole trees of up to {last} nodes kept {whole} drafted tokens a round; the nodes after the {before}th "
           f"earned {(whole.value - less.value) / (last - before):.3f} each, the first one "
           f"{anatomy.first_nodes[sizes[0]].value:.2f}.")
    if enough < last:
        yield f"Here {enough} nodes do what {last} do: they keep {anatomy.first_nodes[enough].value:.2f}."


def _trees(redrafts: tuple[RedraftedLength, ...]) -> Iterator[str]:
    for drafter in dict.fromkeys(row.drafter for row in redrafts):
        rows = [row for row in redrafts if row.drafter == drafter]
        most = max(row.budget for row in rows if row.accepted.count == max(other.accepted.count for other in rows))
        widest = {row.kind: row for row in rows if row.budget == most}
        yield (f"With {most} nodes of {drafter} at the same {widest[CHAIN].accepted.count} places: "
               + ", ".join(f"{kind} {row.accepted}" for kind, row in widest.items()) + " drafted tokens a round.")
        yield from (_branching(row, widest) for kind, row in widest.items() if kind.startswith("tree"))


def _branching(row: RedraftedLength, widest: Mapping[str, RedraftedLength]) -> str:
    chain, gain = 1 + widest[CHAIN].accepted.value, row.gain_over_chain
    sure = "" if gain.low > 0 or gain.high < 0 else ", which may be none"
    return (f"Branching was worth {gain} tokens a round to the {row.kind}{sure}: {gain.value / chain:+.0%} of the "
            f"chain's τ of {chain:.2f}.")


def _text(anatomy: Anatomy) -> Iterator[str]:
    def several(what: str, parts: Mapping[str, Measured]) -> Iterator[str]:
        if len(parts) > 1:
            yield f"Drafted tokens kept by a round, {what}: " + ", ".join(
                f"{name} {mean} in {mean.count} rounds" for name, mean in parts.items()) + "."

    by_position = {f"from token {start}": mean for start, mean in anatomy.by_position.items()}
    yield from several("by where it begins", by_position)
    yield from several("by kind of text", anatomy.by_kind)
