"""A tree as the rows of one pass, and the walk through what was said of them, in fixed shapes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.runtime.graphs.trees import PaddedTree


def picked(values: Tensor, place: Tensor) -> Tensor:
    """values[place] for a place () on the device; plain indexing would fetch the place to the host first."""
    return values.index_select(0, place[None])[0]


def rounds_of_doubling(deepest: int) -> int:
    """After so many doublings every row of a tree of this depth at most has looked up to its root."""
    return deepest.bit_length()


def depths_of(parents: Tensor) -> Tensor:
    """Depth of each row (rows,) int64; rows that are their own parent, root and padding, have 0."""
    depths = (parents != torch.arange(len(parents), device=parents.device)).long()
    for _ in range(rounds_of_doubling(len(parents) - 1)):
        depths = depths + depths[parents]
        parents = parents[parents]
    return depths


def ancestors(parents: Tensor, deepest: int) -> Tensor:
    """Row i sees itself and its ancestors, of which it has at most ``deepest``: (rows, rows) bool, by doubling."""
    seen = torch.eye(len(parents), dtype=torch.bool, device=parents.device)
    for _ in range(rounds_of_doubling(deepest)):
        seen = seen | seen.index_select(0, parents)
        parents = parents[parents]
    return seen


class PaddedRows(NamedTuple):
    """A packed tree: seen (rows, rows) bool, depths (rows,) int64; padding sees itself alone, at depth 0."""

    seen: Tensor
    depths: Tensor


def packed(tree: PaddedTree, deepest: int) -> PaddedRows:
    """See ``tree.pack``; positions are the prefix's length + depths, none greater than ``deepest``."""
    seen = ancestors(tree.parents, deepest)
    return PaddedRows(seen, seen.sum(-1) - 1)


class TextEnd(NamedTuple):
    """What ends a text: stop_ids (any number,) int64, left () int64 tokens; ``deepest`` is how deep a tree can be."""

    stop_ids: Tensor
    left: Tensor
    deepest: int


class KeptRows(NamedTuple):
    """keep (deepest possible + 1,) int64, the rows on the walk, root first, then zeros; count () int64 of them that
    stay; bonus () int64, the next root."""

    keep: Tensor
    count: Tensor  # type: ignore[assignment]  # a tuple counts, too
    bonus: Tensor


def walked(tree: PaddedTree, rows: PaddedRows, accepted: Tensor, deepest: int) -> tuple[Tensor, Tensor]:
    """The rows from the root to the deepest one whose ancestors and self are all accepted, (deepest + 1,) int64 with
    zeros after them, and that row (); the lowest among equally deep ones. See ``acceptance.walk``.

    accepted (rows,) bool; what it says of the root and of padding does not matter.
    """
    index = torch.arange(len(accepted), device=accepted.device)
    reached = (~rows.seen | accepted | (index == 0)).all(-1) & (index < tree.size)
    last = torch.where(reached, rows.depths * len(index) + len(index) - 1 - index, -1).argmax()
    on_path = picked(rows.seen, last)
    places = torch.where(on_path, rows.depths, deepest + 1)
    return index.new_zeros(deepest + 2).scatter_(0, places, index)[:deepest + 1], last


def kept(tree: PaddedTree, rows: PaddedRows, choice: Tensor, accepted: Tensor, end: TextEnd) -> KeptRows:
    """The walk, ended before a stop token and where no token is left (``decode``: end of text)."""
    keep, last = walked(tree, rows, accepted, end.deepest)
    count = picked(rows.depths, last) + 1
    tokens = tree.tokens[keep]
    places = torch.arange(len(keep), device=keep.device)
    ends = (tokens[:, None] == end.stop_ids).any(-1) & (places < count)
    length = torch.minimum(torch.where(ends, places, count).amin(), end.left)
    cut = picked(tokens, length.clamp(max=len(keep) - 1))
    return KeptRows(keep, length, torch.where(length < count, cut, picked(choice, last)))
