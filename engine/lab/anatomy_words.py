"""The sentences that an anatomy's figures support, by the figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.lab.anatomy import ENOUGH, Anatomy, DrafterAnatomy
from engine.lab.redraft import CHAIN, RedraftedLength
from engine.lab.statistics import Measured

FEW = 20  # places; a share over fewer is said with a caution
ORDINALS = ("first", "second", "third", "fourth")


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
