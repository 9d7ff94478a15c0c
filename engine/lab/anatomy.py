"""Where a tree pays: from the rounds of recorded runs, which proposal the target took, where, and what each verified
row earned. It needs a trace and nothing else; what a trace lacks is left out, and said.

A drafter's *row* is what it proposes at one place of the path that the target took, best first. The *spine* is the path
of first proposals. Ranks count from 0 here and from 1 in sentences: "the second proposal" has rank 1.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from engine.budget.auto import best_order
from engine.decoding.tree import depths
from engine.lab.redraft import RedraftedLength, redrafted
from engine.lab.statistics import Measured, ended_by_text, mean_of, place, share_of, step
from engine.records import Round
from engine.trace import Trace, as_bytes, committed_ids, pieces_of

PLACES = (0, 16, 64, 256, 1024, 4096)  # of the text, in tokens, at which a stretch begins
SILENT_ROUNDS = 16  # in a row without a draft, at the end of a run, before that is said
ENOUGH = 0.98  # of a whole tree's tokens: a smaller tree with so many does as much
CODE, DIGITS, PROSE = "code", "digits", "prose"
CODE_LINE = re.compile(
    rb"^\s*(def|class|return|import|from \S+ import|for|while|if|elif|else|try|with|const|let|var|function|#include)\b"
    rb".*[:;(){}=]|[;{}]\s*$|^(    |\t)\s*\S|\w\([^ ].*\)\s*$|\w\(\)")
FENCE = b"```"
MANY_DIGITS = 0.2  # of a line's characters but spaces


@dataclass(frozen=True)
class TargetChoice:
    """The target's token after one kept row, as one drafter had it.

    ``depth`` of the token is 1 right after the root. ``rank`` is its place in the drafter's row, None where the row
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
    all worse ones; ``like``: what the spine gives at the depths of all those places together, None without any.
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
    places. ``by_place`` and ``by_kind``: accepted drafted tokens of a round by the token of the text at which it begins
    (from each number on), and by the kind of its line. ``lacking``: what is left out and why, in sentences.
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
    redrafts, lacking = redrafted([(trace, kept) for trace, kept in counted if kept])
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


def undrafted_at_the_end(trace: Trace) -> int:
    """How many rounds in a row drafted nothing at the end of a run."""
    drafted = [place for place, entry in enumerate(trace.entries, 1) if len(entry.round.tree) > 1]
    return len(trace.entries) - max(drafted, default=0)


def target_choices(round_: Round, drafter: int) -> Iterator[TargetChoice]:
    """What the target chose at each kept row, as far as this drafter proposed anything there."""
    path = [*round_.committed[1:].tolist(), round_.acceptance.bonus]
    draft, row, spine = round_.drafts[drafter], 0, True
    above: int | None = 0
    for depth, token in enumerate(path[:draft.depth]):
        rank = place(draft, row, depth, token)
        yield TargetChoice(depth + 1, rank, above, spine, depth + 1 < len(path))
        following = step(draft, row, depth, token)
        if following is None:
            return
        row, above, spine = following, rank, spine and rank == 0


def choices_in_tree(round_: Round) -> Iterator[TargetChoice]:
    """The same from the tree alone, for an engine that does not record what its drafter proposed: the row is what the
    tree holds below a kept node."""
    keep, parents = round_.acceptance.keep.tolist(), round_.tree.parents
    above, spine = 0, True
    for depth, (node, following) in enumerate(zip(keep, [*keep[1:], None], strict=True)):
        children = (np.flatnonzero(parents[1:] == node) + 1).tolist()
        if not children:
            return
        rank = children.index(following) if following is not None else None
        yield TargetChoice(depth + 1, rank, above, spine, rank is not None)
        above, spine = rank or 0, spine and rank == 0


Counted = Sequence[tuple[Trace, Sequence[Round]]]


def _drafters(counted: Counted) -> tuple[DrafterAnatomy, ...]:
    """Each drafter by name; a recording without drafts stands for its engine's."""
    walks: dict[str, list[list[TargetChoice]]] = defaultdict(list)
    misses: dict[str, Counter[str]] = defaultdict(Counter)
    for trace, rounds in counted:
        for round_ in rounds:
            if not round_.drafts:
                name = trace.header.engine or trace.header.request.method
                walks[name].append(list(choices_in_tree(round_)))
            for drafter, draft in enumerate(round_.drafts):
                name = trace.header.drafters[drafter] if drafter < len(trace.header.drafters) else f"drafter {drafter}"
                walk = list(target_choices(round_, drafter))
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
    steps = [choice for walk in walks for choice in walk]
    spine = [[choice.rank == 0 for choice in steps if choice.spine and choice.depth == depth]
             for depth in range(1, 1 + max((choice.depth for choice in steps if choice.spine), default=0))]
    after: dict[int, list[bool]] = defaultdict(list)
    like = []
    for choice in steps:
        if choice.above:
            after[min(choice.above, 3)].append(choice.rank == 0)
            if choice.depth <= len(spine):
                like.append(np.mean(spine[choice.depth - 1]))
    total = misses.total()
    return DrafterAnatomy(
        name, {where: share_of(count, total) for where, count in sorted(misses.items())},
        tuple(share_of(sum(right), len(right)) for right in spine),
        {rank: share_of(sum(right), len(right)) for rank, right in sorted(after.items())},
        float(np.mean(like)) if like else None)


def _earned(counted: Counted) -> tuple[dict[int, Measured], dict[int, Measured], dict[str, Measured]]:
    """Kept over verified rows, by rank among siblings, by depth, and by the drafters that proposed the row."""
    tables: tuple[Counter[tuple[object, bool]], ...] = (Counter(), Counter(), Counter())
    for trace, rounds in counted:
        for round_ in rounds:
            kept = np.isin(np.arange(len(round_.tree)), round_.acceptance.keep)[1:].tolist()
            names = [_names(trace.header.drafters, mask) for mask in round_.tree.drafters[1:].tolist()]
            keys = (sibling_ranks(round_.tree.parents).tolist(), depths(round_.tree.parents)[1:].tolist(), names)
            for table, values in zip(tables, keys, strict=True):
                table.update(zip(values, kept, strict=True))
    ranks, below, names_ = ({key: share_of(table[key, True], table[key, True] + table[key, False])
                             for key in dict.fromkeys(sorted(key for key, _ in table))}  # type: ignore[type-var]
                            for table in tables)
    return ranks, below, names_ if len(names_) > 1 else {}  # type: ignore[return-value]


def _names(drafters: Sequence[str], mask: int) -> str:
    return " and ".join(name for bit, name in enumerate(drafters) if mask >> bit & 1) or "its drafter"


def sibling_ranks(parents: NDArray[np.int32]) -> NDArray[np.int64]:
    """The place of each drafted node among the children of its parent, in the tree's order: (n − 1,), from 0."""
    born: Counter[int] = Counter()
    ranks = []
    for parent in parents[1:].tolist():
        ranks.append(born[parent])
        born[parent] += 1
    return np.asarray(ranks, np.int64)


def _first_nodes(rounds: Sequence[Round]) -> dict[int, Measured]:
    """See ``Anatomy``. Any beginning of the order by probability is a tree, so the walk in it is known."""
    most = max((len(round_.tree) - 1 for round_ in rounds), default=0)
    sizes = sorted({min(2**power, most) for power in range(most.bit_length() + 1)} - {0})
    lengths = {size: [kept_of_first(round_, size) for round_ in rounds] for size in sizes}
    return {size: mean_of(values) for size, values in lengths.items()}


def kept_of_first(round_: Round, nodes: int) -> int:
    """How many drafted tokens the round had accepted if it had verified its ``nodes`` most probable ones alone."""
    tree, keep = round_.tree, round_.acceptance.keep[1:]
    known = np.isfinite(tree.logprobs).all()
    order = best_order(tree) if known else np.arange(len(tree))
    places = np.empty(len(tree), np.int64)
    places[order] = np.arange(len(tree))
    return int(np.logical_and.accumulate(places[keep] <= nodes).sum())


def _by_text(counted: Counted) -> tuple[dict[int, Measured], dict[str, Measured]]:
    places: dict[int, list[int]] = defaultdict(list)
    kinds: dict[str, list[int]] = defaultdict(list)
    for trace, rounds in counted:
        at = start_places(trace)
        kind = kinds_of(trace)
        for round_ in rounds:
            accepted, token = len(round_.acceptance.keep) - 1, at[round_.index]
            places[max(begin for begin in PLACES if begin <= token)].append(accepted)
            if token < len(kind):
                kinds[kind[token]].append(accepted)
    return ({begin: mean_of(values) for begin, values in sorted(places.items())},
            {name: mean_of(values) for name, values in sorted(kinds.items())})


def start_places(trace: Trace) -> dict[int, int]:
    """The token of the text, from 0, at which each round begins, by the round's index."""
    lengths = [len(entry.round.acceptance.keep) for entry in trace.entries]
    return {entry.round.index: begin for entry, begin in zip(trace.entries, accumulate([0, *lengths]), strict=False)}


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


def _lacking(counted: Counted) -> Iterable[str]:
    """What these traces do not hold."""
    if not any(rounds for _, rounds in counted):
        yield "No round drafted anything, so there is nothing to take apart."
        return
    silent = [count for trace, _ in counted if (count := undrafted_at_the_end(trace)) >= SILENT_ROUNDS]
    if silent:
        yield (f"The last {max(silent)} rounds of a run drafted nothing: speculation was switched off there, or fell "
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
