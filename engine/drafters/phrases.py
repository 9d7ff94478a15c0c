"""A drafter without a network: it proposes the tokens that followed the last ones in its target's other answers, and in
this text.

A table of the target's own answers gives the distribution after the last one, two or three tokens; counts over the
prompt and the text so far shift it. The drafter sees its path, and grows the tree of its budget best first. It
descends from prompt look-up and REST (arXiv 2311.08252).

A checkpoint's model.safetensors holds, for each number of tokens o from 1 on, ``keys{o}`` uint64 (contexts,) ascending,
the context's tokens packed 21 bits each; ``ends{o}`` uint32 (contexts,): where the cells of each context end;
``tokens{o}`` uint16 or uint32 (cells,) and ``codes{o}`` uint8 (cells,): log probabilities, −code / 16, likeliest first.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from engine.checkpoints.files import damaged_error, display_name, first_line, read_config
from engine.drafters.kinds import DrafterPlan, TargetFacts, architectures, check_equal
from engine.drafters.ngram import Context, Row, TextDrafter, expand_best_paths, likeliest
from engine.errors import RigError
from engine.models.target import TorchTarget
from engine.records import Lattice

TOKEN_BITS = 21  # three tokens fit into a key of 64 bits
MAX_CONTEXT = 3  # tokens
MAX_CONTEXT_CELLS = 2**8  # a look-up reads all of them; the shipped tables have 12
STEPS_PER_NAT = 16  # a code of 16 is a log probability of −1
ARRAYS: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "keys": (np.uint64,), "ends": (np.uint32,), "tokens": (np.uint16, np.uint32), "codes": (np.uint8,)})
PROBABILITY = tuple(exp(-code / STEPS_PER_NAT) for code in range(256))

MAX_DEPTH = 24
MAX_PROPOSALS = 12  # after one path
MIN_PROBABILITY = 1e-5  # tokens below it are not proposed


@dataclass(frozen=True, eq=False)
class PhraseOrder:
    """The contexts of one length; see the module's docstring for the arrays."""

    keys: NDArray[np.uint64]
    ends: NDArray[np.uint32]
    tokens: NDArray[Any]
    codes: NDArray[np.uint8]

    def row(self, key: int) -> Row | None:
        """Return the tokens that follow a context; None if the table has none."""
        view = self.keys.data  # for Python's bisect: numpy's search makes an array in each call
        number = bisect_left(view, key)
        if number == len(view) or view[number] != key:
            return None
        cells = slice(int(self.ends[number - 1]) if number else 0, int(self.ends[number]))
        return [(token, PROBABILITY[code]) for token, code in zip(
            self.tokens[cells].tolist(), self.codes[cells].tolist(), strict=True)]


def table_row(orders: Sequence[PhraseOrder], context: Sequence[int]) -> Row:
    """Return the row after the longest known ending of the context, [] without one; shorter orders come first."""
    for length in range(min(len(orders), len(context)), 0, -1):
        key = 0
        for token in context[len(context) - length:]:
            key = key << TOKEN_BITS | token
        row = orders[length - 1].row(key)
        if row is not None:
            return row
    return []


class PhraseDrafter(TextDrafter):
    """Drafts from a table of phrases and the counts of the text so far; without a table, from the counts alone."""

    priors = (8.0, 2.0, 1.0, 0.5)  # weight of the table against one occurrence in the text, by context length

    def __init__(self, vocabulary: int, table: Sequence[PhraseOrder] = ()) -> None:
        self.vocabulary, self.table = vocabulary, table
        self.release()

    def draft(self, root: int, width: int) -> Lattice:
        """Return the rows after the root and after the ``width`` best paths; other cells lead nowhere."""
        return expand_best_paths(self._row_after, self._text, root, width, MAX_DEPTH)

    def _row_after(self, context: Context) -> Row:
        row = self._text.shifted(table_row(self.table, context), context)
        return likeliest([cell for cell in row if cell[1] >= MIN_PROBABILITY], MAX_PROPOSALS)


def read_table(folder: Path, vocabulary: int) -> list[PhraseOrder]:
    """Return the table in a folder; RigError if it is damaged."""
    file = folder / "model.safetensors"
    try:
        return _parse_orders(load_file(file), vocabulary)
    except (SafetensorError, OSError) as error:
        raise damaged_error(file, error) from error
    except (ValueError, AttributeError, TypeError) as error:  # numpy raises the last two for unknown types
        raise RigError(f"The table of phrases in {display_name(folder)} cannot be read ({first_line(error)}); make it "
                       "again.") from error


def _parse_orders(arrays: Mapping[str, NDArray[Any]], vocabulary: int) -> list[PhraseOrder]:
    """Return the orders in a file's arrays; ValueError says what is wrong with them."""
    orders: list[PhraseOrder] = []
    while f"keys{len(orders) + 1}" in arrays and len(orders) < MAX_CONTEXT:
        number, values = len(orders) + 1, {}
        for name, types in ARRAYS.items():
            array = arrays.get(f"{name}{number}")
            if array is None or array.ndim != 1 or array.dtype not in types:
                allowed = " or ".join(np.dtype(kind).name for kind in types)
                raise ValueError(f"{name}{number} has to be a list of {allowed}")
            values[name] = np.ascontiguousarray(array)
        orders.append(PhraseOrder(**values))
        _check_order(orders[-1], number, vocabulary)
    if not orders:
        raise ValueError("it holds no keys1")
    return orders


def _check_order(order: PhraseOrder, number: int, vocabulary: int) -> None:
    """Raise ValueError if a look-up could fail."""
    sizes = np.diff(order.ends.astype(np.int64), prepend=0)
    for holds, wrong in (
            (len(order.keys) == len(sizes) and (sizes >= 0).all()
             and sizes.sum() == len(order.tokens) == len(order.codes), f"ends{number} do not fit its cells"),
            (sizes.max(initial=0) <= MAX_CONTEXT_CELLS,
             f"ends{number} gives a context more than {MAX_CONTEXT_CELLS} cells"),
            ((order.keys[1:] > order.keys[:-1]).all(), f"keys{number} do not ascend"),
            (order.tokens.max(initial=0) < vocabulary, f"tokens{number} holds a token beyond the {vocabulary}")):
        if not holds:
            raise ValueError(wrong)


def recognises(values: Mapping[str, Any]) -> bool:
    """Return whether a config.json says that it is a table of phrases."""
    return "phrasetable" in architectures(values)


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """Plan a table; RigError if it was counted over another vocabulary."""
    check_equal(folder, "a vocabulary of", read_config(folder).get("vocab_size"), target.config.vocab_size)
    return DrafterPlan((), partial(_load, folder))


def _load(folder: Path, target: TorchTarget) -> PhraseDrafter:
    vocabulary = int(target.config.vocab_size)
    return PhraseDrafter(vocabulary, read_table(folder, vocabulary))
