"""What the host reads of a round: one small buffer, and the ``Round`` made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.records import Acceptance, DraftTree, Integers, Lattice, Round
from engine.runtime.graphs.round import Board
from engine.runtime.target.sampling import on_host

Arrays = Mapping[str, NDArray[Any]]


def named(on: Board) -> dict[str, Tensor]:
    """The tensors of a finished round that a ``Round`` is made of, by name; all integers before all floats."""
    integers = {"ended": on.ended, "kept": torch.cat([on.kept.keep, on.kept.count[None], on.kept.bonus[None]]),
                "choice": on.choice}
    floats = {"statistics": on.statistics}
    trees = {"tree": on.tree, **{f"candidate {drafter}": tree for drafter, tree in enumerate(on.candidates)}}
    for name, tree in trees.items():
        integers |= {f"{name} tokens": tree.tokens, f"{name} parents": tree.parents, f"{name} drafters": tree.drafters,
                     f"{name} size": tree.size[None]}
        floats[f"{name} costs"] = tree.costs
    for drafter, lattice in enumerate(on.lattices):
        integers[f"lattice {drafter} tokens"], floats[f"lattice {drafter} logprobs"] = lattice
    return integers | floats


class Report:
    """Packs a round's tensors into one buffer, and unpacks it on the host by the names and shapes it has kept."""

    def __init__(self) -> None:
        self._shapes: dict[str, torch.Size] = {}
        self._integers = 0

    def buffer(self, on: Board) -> Tensor:
        """All that the host will read, (n,) int32 on the device: integers, then floats by their bits."""
        tensors = named(on)
        self._shapes = {name: value.shape for name, value in tensors.items()}
        integers = [value.flatten() for value in tensors.values() if not value.is_floating_point()]
        floats = [value.flatten() for value in tensors.values() if value.is_floating_point()]
        self._integers = len(integers)
        return torch.cat([torch.cat(integers).int(), torch.cat(floats).view(torch.int32)])

    def arrays(self, buffer: Integers) -> Arrays:
        """The tensors of ``buffer`` (n,) by name, as int32 and float32 arrays in their own shapes."""
        found, first = {}, 0
        for number, (name, shape) in enumerate(self._shapes.items()):
            values = buffer[first:first + shape.numel()].reshape(shape)
            found[name] = values if number < self._integers else values.view(np.float32)
            first += shape.numel()
        return found


def drafted(arrays: Arrays, name: str) -> DraftTree:
    """The tree of that name, without its padding."""
    size = int(arrays[f"{name} size"][0])
    return DraftTree(arrays[f"{name} tokens"][:size], arrays[f"{name} parents"][:size],
                     -arrays[f"{name} costs"][:size], arrays[f"{name} drafters"][:size])


def proposed(arrays: Arrays, drafter: int, deepest: int) -> Lattice:
    """A drafter's marginals as a lattice, cut to ``deepest`` positions."""
    tokens, logprobs = (arrays[f"lattice {drafter} {name}"][:deepest, None] for name in ("tokens", "logprobs"))
    return Lattice(tokens, logprobs, np.zeros_like(tokens))


def round_record(arrays: Arrays, index: int, context_limit: int, seconds: Mapping[str, float]) -> Round:
    """The record of a round that was made from a buffer's arrays, with seconds per stage."""
    start, tree = int(arrays["ended"][0]), drafted(arrays, "tree")
    drafters, size = range(sum(name.endswith("logprobs") for name in arrays)), len(tree)
    *keep, count, bonus = arrays["kept"].tolist()
    return Round(
        index, start, tuple(proposed(arrays, drafter, context_limit - start - 1) for drafter in drafters),
        tuple(drafted(arrays, f"candidate {drafter}") for drafter in drafters), tree,
        on_host(arrays["choice"][:size], arrays["statistics"][:, :size], tree.tokens, tree.parents),
        Acceptance(np.asarray(keep[:count], np.int32), bonus), seconds)
