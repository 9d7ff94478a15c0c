"""Decodes a round from the JSON of a trace file's line. A round needs tokens, parents, keep and bonus (contract 7).

What an engine did not record is marked in the arrays, node by node: NaN for an unknown float, -1 for an unknown token.
Of the target's choices, those that the walk followed are known in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.recorder import INTEGERS, LATTICE, TREE, TRIALS, VERIFICATION, check_round
from engine.records import Acceptance, DraftTree, Integers, Lattice, Round, Trials, Verification
from engine.trace.checks import listed, named, packed_array

NOT_RECORDED = -1  # in place of a token id


def completed(header: Mapping[str, Any]) -> dict[str, Any]:
    """A header with defaults for what a recorder may leave out: empty text, and 0 for an unknown number."""
    unknown = {"method": "unknown", "prompt_ids": [], "budget": 0, "max_tokens": 0, "sampling": {}, "stop_ids": []}
    blank = {"prompt": "", "heads": [], "hardware": "", "dtype": "", "context_limit": 0, "pieces": {}, "revisions": {}}
    return {**blank, "rig": header.get("engine", ""), **header, "request": {**unknown, **header.get("request", {})}}


def decode_round(value: Mapping[str, Any]) -> Round:
    """The round of a line; ValueError, LookupError or TypeError where it is not sound."""
    line = _unpacked(value)
    check_round(line)
    kept, trials = line["acceptance"], line["acceptance"].get("trials")
    acceptance = Acceptance(kept["keep"], kept["bonus"], None if trials is None else Trials(**trials))
    tree = _tree(line["tree"])
    unknown = {name: np.full(len(tree), np.nan, np.float32) for name in VERIFICATION if name != "choice"}
    verification = Verification(**{"choice": _walked(tree, acceptance), **unknown, **line["verification"]})
    return Round(
        line["index"], line["start"], tuple(Lattice(**draft) for draft in line["drafts"]),
        tuple(map(_tree, line["candidates"])), tree, verification, acceptance,
        {stage: float(seconds) for stage, seconds in line["seconds"].items()})


def _unpacked(value: Mapping[str, Any]) -> dict[str, Any]:
    """A round as its line has it, with its arrays unpacked."""
    kept = named(value["acceptance"], "acceptance")
    acceptance = {"keep": packed_array(kept["keep"], (INTEGERS,), "keep"), "bonus": kept["bonus"]}
    if kept.get("trials") is not None:
        acceptance["trials"] = _arrays(kept["trials"], TRIALS, "trials")
    return {
        "index": value["index"], "start": value["start"], "tree": _arrays(value["tree"], TREE, "tree"),
        "verification": _arrays(value.get("verification", {}), VERIFICATION, "verification"), "acceptance": acceptance,
        "drafts": [_arrays(draft, LATTICE, "lattice") for draft in listed(value.get("drafts", []), "drafts")],
        "candidates": [_arrays(tree, TREE, "tree") for tree in listed(value.get("candidates", []), "candidates")],
        "seconds": named(value.get("seconds", {}), "seconds")}


def _arrays(value: Any, kinds: Mapping[str, str], what: str) -> dict[str, Any]:
    """Those of the named arrays that there are."""
    given = named(value, what)
    return {name: packed_array(given[name], (kind,), name) for name, kind in kinds.items() if name in given}


def _tree(arrays: Mapping[str, Any]) -> DraftTree:
    """The tree of a line; where it does not say which drafter proposed a node, the first did."""
    shape = arrays["tokens"].shape
    drafters, unknown = np.ones(shape, np.int32), np.full(shape, np.nan, np.float32)
    drafters[0] = unknown[0] = 0
    return DraftTree(arrays["tokens"], arrays["parents"], arrays.get("logprobs", unknown),
                     arrays.get("heads", drafters))


def _walked(tree: DraftTree, acceptance: Acceptance) -> Integers:
    """The choices that the walk followed, (n,) int32."""
    choice = np.full(len(tree), NOT_RECORDED, np.int32)
    choice[acceptance.keep[:-1]] = tree.tokens[acceptance.keep[1:]]
    choice[acceptance.keep[-1]] = acceptance.bonus
    return choice
