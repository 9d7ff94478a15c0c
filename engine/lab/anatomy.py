"""Where a tree pays: from the rounds of recorded runs, which proposal the target took, where, and what each verified
row earned; and the sentences that these figures support. It needs a trace and nothing else; what a trace lacks is left
out, and said.

A drafter's *row* is what it proposes at one step of the path that the target took, best first. The *spine* is the path
of first proposals. Ranks count from 0 here and from 1 in sentences: "the second proposal" has rank 1.
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
from engine.trace import Trace, as_bytes, committed_ids, pieces_of

STRETCHES = (0, 16, 64, 256, 1024, 4096)  # of the text: the position at which each begins
SILENT_ROUNDS = 16  # in a row without a draft, at the end of a run, before that is said
ENOUGH = 0.98  # of a whole tree's tokens: a smaller tree with so many does as much
CODE, DIGITS, PROSE = "code", "digits", "prose"
CODE_LINE = re.compile(
    rb"^\s*(def|class|return|import|from \S+ import|for|while|if|elif|else|try|with|const|let|var|function|#include)\b"
    rb".*[:;(){}=]|[;{}]\s*$|^(    |\t)\s*\S|\w\([^ ].*\)\s*$|\w\(\)")
FENCE = b"```"
MANY_DIGITS = 0.2  # of a line's characters but spaces
FEW = 20  # cases; a share over fewer is said with a caution
ORDINALS = ("first", "second", "third", "fourth")
Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class TargetChoice:
    """The target's token after one kept row, as one drafter had it.

    ``depth`` of the token is 1 right after the root. ``rank`` is its index in the drafter's row, None where the row
    does not hold it. ``above`` is the rank of the token before it in *its* row, 0 for the root and None where that row
    did not hold it; ``spine`` says that all before it were first proposals. ``taken``: the tree held it.
    """

    depth: int
    rank: int | None
    above: int | None
    spine: bool
    taken: bool


@dataclass(frozen=True)
class DrafterAnatomy:
    """One drafter's rows along the target's paths.

    ``misses``: where the walk ended, the share of rounds in which the target's token had a rank in the drafter's row,
    by its name; ``spine``: by depth from 1, how often the first proposal was right while all before it had been;
    ``after``: the same after an accepted proposal that was not the first, by its rank from 1, the last also counting
    all worse ones; ``like``: what the spine gives at the depths of all those cases together, None without any.
    """

    name: str
    misses: dict[str, Measured]
    spine: tuple[Measured, ...]
    after: dict[int, Measured]
    like: float | None


@dataclass(frozen=True)
class Anatomy:
    """What some recorded runs show. ``rounds`` count those that drafted and that the end of the text did not cut.

    Tokens earned by a verified row (so the share of such rows that were kept): ``by_rank`` from 0 among its siblings in
    the tree, ``by_depth`` from 1, ``by_drafter`` by names. ``first_nodes``: the accepted drafted tokens of a round, had
    the tree been only its n most probable nodes, by n. ``redrafts`` are other trees of the same drafts at the same
    positions. ``by_place`` and ``by_kind``: accepted drafted tokens of a round by the position in the text at which it
    begins (from each number on), and by the kind of its line. ``lacking``: what is left out and why, in sentences.
    """

    runs: int
    rounds: int
    drafters: tuple[DrafterAnatomy, ...]
    by_rank: dict[int, Measured]
    by_depth: dict[int, Measured]
    by_drafter: dict[str, Measured]
    first_nodes: dict[int, Measured]
    redrafts: tuple[RedraftedLength, ...]
    by_place: dict[int, Measured]
    by_kind: dict[str, Measured]
    lacking: tuple[str, ...]

    @property
    def accepted(self) -> Measured | None:
        """The accepted drafted tokens of a round, with whole trees; None without a round."""
        return self.first_nodes[max(self.first_nodes)] if self.first_nodes else None


def anatomy(traces: Sequence[Trace]) -> Anatomy:
    """The anatomy of these runs together; drafters of the same name are one."""
    counted = [(trace, counted_rounds(trace)) for trace in traces]
    rounds = [round_ for _, kept in counted for round_ in kept]
    redrafts, lacking = redraft_kinds([(trace, kept) for trace, kept in counted if kept])
    return Anatomy(
        len(traces), len(rounds), _drafters(counted), *_earned(counted), _first_nodes(rounds), redrafts,
        *_by_text(counted), (*_lacking(counted), *lacking))


def counted_rounds(trace: Trace) -> list[Round]:
    """The rounds that drafted, without a last one whose walk the end of the text ended."""
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
    """What the target chose at each kept row: the tokens of its path, as far as there are rows that propose some."""
    above: int | None = 0
    spine = True
    for depth, (token, row) in enumerate(zip(path, rows, strict=False), 1):
        rank = row.index(token) if token in row else None
        yield TargetChoice(depth, rank, above, spine, depth < len(path))
        above, spine = rank, spine and rank == 0


def rows_in_tree(round_: Round) -> Iterator[list[int]]:
    """What the tree holds below each kept node, for an engine that does not record what its drafter proposed."""
    tree = round_.tree
    for node in round_.acceptance.keep:
        children = tree.tokens[1:][tree.parents[1:] == node].tolist()
        if not children:
            return
        yield children


def _drafters(counted: Counted) -> tuple[DrafterAnatomy, ...]:
    """Each drafter by name; a recording without drafts stands for its engine's."""
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
    """Where the drafter's row had the target's token at the end of a walk, as a name."""
    last = walk[-1]
    if last.taken:
        return "past its last place" if last.depth == deepest else "on a path that it did not propose"
    if last.rank is None:
        return f"in none of its {width}"
    return {0: "1st, cut by the budget", 1: "2nd", 2: "3rd"}.get(last.rank, "4th or worse")


def _drafter(name: str, walks: Sequence[Sequence[TargetChoice]], misses: Counter[str]) -> DrafterAnatomy:
    choices = [choice for walk in walks for choice in walk]
    spine = _shares((choice.depth, choice.rank == 0) for choice in choices if choice.spine)
    after = [choice for choice in choices if choice.above]
    like = [spine[choice.depth].value for choice in after if choice.depth in spine]
    return DrafterAnatomy(
        name, {where: share_of(count, misses.total()) for where, count in sorted(misses.items())},
        tuple(spine.values()), _shares((min(choice.above or 0, 3), choice.rank == 0) for choice in after),
        fmean(like) if like else None)


def _earned(counted: Counted) -> tuple[dict[int, Measured], dict[int, Measured], dict[str, Measured]]:
    """Kept over verified rows, by rank among siblings, by depth, and by the drafters that proposed the row."""
    rows = [row for trace, rounds in counted for round_ in rounds for row in _verified_rows(trace, round_)]
    by_drafter = _shares((names, kept) for _, _, names, kept in rows)
    return (_shares((rank, kept) for rank, _, _, kept in rows), _shares((depth, kept) for _, depth, _, kept in rows),
            by_drafter if len(by_drafter) > 1 else {})


def _verified_rows(trace: Trace, round_: Round) -> Iterator[tuple[int, int, str, bool]]:
    """Of each drafted row its rank among siblings, its depth, its drafters' names, and whether it was kept."""
    tree, kept, siblings = round_.tree, set(round_.acceptance.keep.tolist()), Counter[int]()
    rows = zip(tree.parents.tolist(), depths(tree.parents).tolist(), tree.drafters.tolist(), strict=True)
    for node, (parent, depth, mask) in enumerate(rows):
        if node:
            yield siblings[parent], depth, _names(trace.header.drafters, mask), node in kept
            siblings[parent] += 1


def _names(drafters: Sequence[str], mask: int) -> str:
    return " and ".join(name for bit, name in enumerate(drafters) if mask >> bit & 1) or "its drafter"


def _first_nodes(rounds: Sequence[Round]) -> dict[int, Measured]:
    """See ``Anatomy``. Any beginning of the order by probability is a tree, so the walk in it is known."""
    most = max((len(round_.tree) - 1 for round_ in rounds), default=0)
    sizes = {min(2**power, most) for power in range(most.bit_length() + 1)} - {0}
    return _means((size, kept_of_first(round_, size)) for size in sizes for round_ in rounds)


def kept_of_first(round_: Round, nodes: int) -> int:
    """How many drafted tokens the round had accepted if it had verified its ``nodes`` most probable ones alone."""
    tree, keep = round_.tree, round_.acceptance.keep[1:]
    known = np.isfinite(tree.logprobs).all()
    order = best_order(tree) if known else np.arange(len(tree))
    turns = np.empty(len(tree), np.int64)  # of each node in that order
    turns[order] = np.arange(len(tree))
    return int(np.logical_and.accumulate(turns[keep] <= nodes).sum())


def _by_text(counted: Counted) -> tuple[dict[int, Measured], dict[str, Measured]]:
    stretches, kinds = [], []
    for trace, rounds in counted:
        lengths = [len(entry.round.acceptance.keep) for entry in trace.entries]
        begins = dict(zip((entry.round.index for entry in trace.entries), accumulate([0, *lengths]), strict=False))
        kind = kinds_of(trace)
        for round_ in rounds:
            accepted, position = len(round_.acceptance.keep) - 1, begins[round_.index]
            stretches.append((max(begin for begin in STRETCHES if begin <= position), accepted))
            if position < len(kind):
                kinds.append((kind[position], accepted))
    return _means(stretches), _means(kinds)


def kinds_of(trace: Trace) -> list[str]:
    """The kind of each token of the text, by the line in which it begins: ``code`` within a fence or where the line
    looks like a statement, ``digits`` where a fifth of its characters are, else ``prose``. Empty where the trace does
    not say its tokens' texts."""
    named, ids = pieces_of(trace), committed_ids(entry.round for entry in trace.entries)
    if any(token not in named for token in ids):
        return []
    tokens = [as_bytes(named[token]) for token in ids]
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
    return DIGITS if digits >= MANY_DIGITS * max(1, len(signs)) else PROSE


def _lacking(counted: Counted) -> Iterator[str]:
    """What these traces do not hold."""
    if not any(rounds for _, rounds in counted):
        yield "No round drafted anything, so there is nothing to take apart."
        return
    silent = max(sum(1 for _ in takewhile(lambda entry: len(entry.round.tree) == 1, reversed(trace.entries)))
                 for trace, _ in counted)
    if silent >= SILENT_ROUNDS:
        yield (f"The last {silent} rounds of a run drafted nothing: speculation was switched off there, or fell "
               "back to plain decoding.")
    chunked = sum(trace.header.chunked for trace, _ in counted)
    if chunked:
        yield f"{chunked} of the runs do not say which tokens came in one round, and are left out."
    bare = sum(bool(rounds) and not rounds[0].drafts for _, rounds in counted)
    if bare:
        yield (f"{bare} of the runs do not hold what the drafter proposed, so the rank of a missed token is unknown "
               "there, no other tree is tried, and a rank is the place among siblings of the tree.")
    if any(rounds and not kinds_of(trace) for trace, rounds in counted):
        yield "Where tokens have no text, acceptance by kind of text is left out."


def sentences(anatomy: Anatomy) -> dict[str, list[str]]:
    """By the name of the figure: misses, siblings, rows, nodes, trees, text; and what is lacking."""
    words = {"misses": [line for drafter in anatomy.drafters for line in _misses(drafter)],
             "siblings": [line for drafter in anatomy.drafters for line in _siblings(drafter)],
             "rows": list(_rows(anatomy)), "nodes": list(_nodes(anatomy)), "trees": list(_trees(anatomy.redrafts)),
             "text": list(_text(anatomy)), "lacking": list(anatomy.lacking)}
    return {name: lines for name, lines in words.items() if lines}


def percent(share: Measured) -> str:
    """A share as it is printed, with its interval and what it counts."""
    few = ", few" if share.count < FEW else ""
    return f"{share.value:.0%} ({share.low:.0%} to {share.high:.0%} of {share.count}{few})"


def _misses(drafter: DrafterAnatomy) -> Iterator[str]:
    if not drafter.misses:
        return
    parts = [f"{where} in {percent(share)}" for where, share in
             sorted(drafter.misses.items(), key=lambda pair: -pair[1].value)]
    yield f"Where the walk of a round ended, the target's token was in {drafter.name}'s row: {'; '.join(parts)}."


def _siblings(drafter: DrafterAnatomy) -> Iterator[str]:
    if drafter.spine:
        yield (f"On its spine {drafter.name}'s first proposal was right " + ", ".join(
            f"at depth {depth} in {percent(share)}" for depth, share in enumerate(drafter.spine[:3], 1)) + ".")
    beside = f"; at those depths of the spine it is right in {drafter.like:.0%}" if drafter.like is not None else ""
    for rank, share in drafter.after.items():
        more = " or worse" if rank == 3 else ""
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
    enough = next(size for size in sizes if anatomy.first_nodes[size].value >= ENOUGH * whole.value)
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
    chain, gain = 1 + widest[CHAIN].accepted.value, row.over_chain
    sure = "" if gain.low > 0 or gain.high < 0 else ", which may be none"
    return (f"Branching was worth {gain} tokens a round to the {row.kind}{sure}: {gain.value / chain:+.0%} of the "
            f"chain's τ of {chain:.2f}.")


def _text(anatomy: Anatomy) -> Iterator[str]:
    def several(what: str, parts: Mapping[str, Measured]) -> Iterator[str]:
        if len(parts) > 1:
            yield f"Drafted tokens kept by a round, {what}: " + ", ".join(
                f"{name} {mean} in {mean.count} rounds" for name, mean in parts.items()) + "."

    yield from several("by where it begins", {f"from token {begin}": mean for begin, mean in anatomy.by_place.items()})
    yield from several("by kind of text", anatomy.by_kind)
