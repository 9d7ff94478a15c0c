"""Decodes a round from the JSON of a trace file's line. A round needs tokens, parents, keep and bonus (contract 7).

What an engine did not record is marked in the arrays, node by node: NaN for an unknown float, -1 for an unknown token.
Of the target's choices, those that the walk followed are known in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from engine.records import Acceptance, DraftTree, Integers, Lattice, Round, Trials, Verification
from engine.trace.checks import listed, named, packed_array, seconds, whole
from engine.trace.limits import MOST_DRAFTERS
from engine.trace.round_check import check_round
from engine.trace.written_names import written_name

INTEGERS, FLOATS = "<i4", "<f4"
DTYPES = MappingProxyType({"Integers": INTEGERS, "Floats": FLOATS})  # by the name of a field's type in ``records.py``
Arrays = TypeVar("Arrays", Lattice, DraftTree, Verification, Trials)
NOT_RECORDED = -1  # in place of a token id


def completed(header: Mapping[str, Any]) -> dict[str, Any]:
    """A header with defaults for what a recorder may leave out: empty text, and 0 for an unknown number."""
    unknown = {"method": "unknown", "prompt_ids": [], "budget": 0, "max_tokens": 0, "sampling": {}, "stop_ids": []}
    blank = {"prompt": "", "heads": [], "hardware": "", "dtype": "", "context_limit": 0, "pieces": {}, "revisions": {}}
    return {**blank, "rig": header.get("engine", ""), **header, "request": {**unknown, **header.get("request", {})}}


def decode_round(value: Mapping[str, Any]) -> Round:
    """The round of a line; ValueError, LookupError or TypeError where it is not sound."""
    kept = named(value["acceptance"], "acceptance")
    trials = kept.get("trials")
    acceptance = Acceptance(packed_array(kept["keep"], (INTEGERS,), "keep"), whole(kept["bonus"], "bonus token"),
                            None if trials is None else _arrays(Trials, trials))
    tree = _tree(value["tree"])
    if not acceptance.keep.ndim == 1 == tree.tokens.ndim:
        raise ValueError("keep-indices or a tree of several dimensions, where one is allowed")
    made = Round(
        index=whole(value["index"], "index of a round"), start=whole(value["start"], "start of a round"),
        drafts=tuple(_arrays(Lattice, draft) for draft in listed(value.get("drafts", []), "drafts", MOST_DRAFTERS)),
        candidates=tuple(_tree(tree) for tree in listed(value.get("candidates", []), "candidates", MOST_DRAFTERS)),
        tree=tree, verification=_verification(value.get("verification", {}), tree, acceptance),
        acceptance=acceptance, seconds=seconds(value.get("seconds", {})))
    check_round(made)
    return made


def _arrays(kind: type[Arrays], value: Mapping[str, Any], **given: Any) -> Arrays:
    """A record of arrays of one shape; ``given`` has those that the line may leave out."""
    value = named(value, kind.__name__)
    arrays = {}
    for field in fields(kind):
        name = written_name(field.name)
        arrays[field.name] = (packed_array(value[name], (DTYPES[str(field.type)],), name)
                              if name in value or field.name not in given else given[field.name])
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or len(shapes.pop()) != (3 if kind is Lattice else 1):
        raise ValueError(f"a {kind.__name__} whose arrays do not fit each other")
    return kind(**arrays)


def _tree(value: Mapping[str, Any]) -> DraftTree:
    """The tree of a line; where it does not say which drafter proposed a node, the first did."""
    shape = packed_array(named(value, "tree")["tokens"], (INTEGERS,), "tokens").shape
    drafters = np.ones(shape, np.int32)
    drafters[:1] = 0
    unknown = np.full(shape, np.nan, np.float32)
    unknown[:1] = 0
    return _arrays(DraftTree, value, logprobs=unknown, drafters=drafters)


def _verification(value: Mapping[str, Any], tree: DraftTree, acceptance: Acceptance) -> Verification:
    unknown = np.full(len(tree), np.nan, np.float32)
    floats = {field.name: unknown.copy() for field in fields(Verification) if field.name != "choice"}
    return _arrays(Verification, value, choice=_walked(tree, acceptance), **floats)


def _walked(tree: DraftTree, acceptance: Acceptance) -> Integers:
    """The choices that the walk followed, (n,) int32. Keep-indices outside the tree are refused later."""
    choice = np.full(len(tree), NOT_RECORDED, np.int32)
    keep = acceptance.keep[(acceptance.keep >= 0) & (acceptance.keep < len(tree))]
    choice[keep[:-1]] = tree.tokens[keep[1:]]
    choice[keep[-1:]] = acceptance.bonus
    return choice
