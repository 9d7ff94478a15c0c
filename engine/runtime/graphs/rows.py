"""A tree as the rows of one forward pass, and the walk along the target's choices, in fixed shapes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.runtime.graphs.trees import PaddedTree


def item_at(values: Tensor, place: Tensor) -> Tensor:
    """The value at a place () int64 on the device; plain indexing would copy the place to the host first."""
    return values.index_select(0, place[None])[0]


def rounds_of_doubling(deepest: int) -> int:
    """How many doublings reach the root from every row of a tree that is at most this deep."""
    return deepest.bit_length()


def depths_of(parents: Tensor) -> Tensor:
    """The depth of each row, (rows,) int64; rows that are their own parent, root and padding, have depth 0."""
    depths = (parents != torch.arange(len(parents), device=parents.device)).long()
    for _ in range(rounds_of_doubling(len(parents) - 1)):
        depths = depths + depths[parents]
        parents = parents[parents]
    return depths


def ancestors(parents: Tensor, deepest: int) -> Tensor:
    """Which rows each row sees, (rows, rows) bool: itself and its ancestors, at most ``deepest`` of them."""
    seen = torch.eye(len(parents), dtype=torch.bool, device=parents.device)
    for _ in range(rounds_of_doubling(deepest)):
        seen = seen | seen.index_select(0, parents)
        parents = parents[parents]
    return seen


class PaddedRows(NamedTuple):
    """A packed tree: seen (rows, rows) bool, depths (rows,) int64; padding sees only itself and has depth 0."""

    seen: Tensor
    depths: Tensor


def packed(tree: PaddedTree, deepest: int) -> PaddedRows:
    """The rows of a tree at most ``deepest`` deep, as ``trees.tree.pack`` lays them out; a row's position is the prefix
    length plus its depth."""
    seen = ancestors(tree.parents, deepest)
    return PaddedRows(seen, seen.sum(-1) - 1)


class TextEnd(NamedTuple):
    """What ends a text: stop_ids (n,) int64; left () int64, the tokens left to write; ``deepest``, how deep a tree can
    be."""

    stop_ids: Tensor
    left: Tensor
    deepest: int


class KeptRows(NamedTuple):
    """The accepted path. keep (deepest + 1,) int64: its rows, root first, then zeros; count () int64: how many of them
    are kept; bonus () int64: the next root's token."""

    keep: Tensor
    count: Tensor  # type: ignore[assignment]  # tuples have a method of this name
    bonus: Tensor


def walked(tree: PaddedTree, rows: PaddedRows, accepted: Tensor, deepest: int) -> tuple[Tensor, Tensor]:
    """The path from the root to the deepest row that is accepted with all its ancestors, (deepest + 1,) int64 padded
    with zeros, and that row () int64; among equally deep rows the first. See ``acceptance.walk``.

    accepted (rows,) bool; its values at the root and at padding are ignored.
    """
    index = torch.arange(len(accepted), device=accepted.device)
    reached = (~rows.seen | accepted | (index == 0)).all(-1) & (index < tree.size)
    last = torch.where(reached, rows.depths * len(index) + len(index) - 1 - index, -1).argmax()
    on_path = item_at(rows.seen, last)
    places = torch.where(on_path, rows.depths, deepest + 1)
    return index.new_zeros(deepest + 2).scatter_(0, places, index)[:deepest + 1], last


def kept(tree: PaddedTree, rows: PaddedRows, choice: Tensor, accepted: Tensor, end: TextEnd) -> KeptRows:
    """The accepted path, cut before a stop token and where no token is left. choice (rows,) int64, accepted (rows,)
    bool."""
    keep, last = walked(tree, rows, accepted, end.deepest)
    count = item_at(rows.depths, last) + 1
    tokens = tree.tokens[keep]
    places = torch.arange(len(keep), device=keep.device)
    ends = (tokens[:, None] == end.stop_ids).any(-1) & (places < count)
    length = torch.minimum(torch.where(ends, places, count).amin(), end.left)
    cut = item_at(tokens, length.clamp(max=len(keep) - 1))
    return KeptRows(keep, length, torch.where(length < count, cut, item_at(choice, last)))
