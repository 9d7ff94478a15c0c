"""Reads a rig's card, the rig.json in its folder, and checks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.checkpoints.files import called, first_line
from engine.checkpoints.opening import Opening
from engine.checkpoints.packaged import packaged
from engine.errors import RigError
from engine.requests.rig_names import NGRAM

CARD = "rig.json"
TYPICAL_LENGTHS: Mapping[int, float] = MappingProxyType({1: 1.4, 3: 1.8, 7: 2.0, 16: 2.2})  # where no card says
KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "title": (str, "a text"), "heads": (list, "a list of names"), "defaults": (dict, "an object of lists of names"),
    "revisions": (dict, "an object of texts"), "package": (dict, "an object of texts"),
    "good_at": (str, "a text"), "familiar_nats": ((int, float), "a number"),
    "familiar": (list, "a list of regular expressions"),
    "acceptance_lengths": (dict, "an object of numbers")}
NEEDED = ("title", "heads", "defaults")


@dataclass(frozen=True)
class RigParts:
    """What a rig is made of, before anything is loaded: its folders, and the drafters for methods of one and of two.
    ``acceptance_lengths`` are mean tokens per round by the node budget, as measured on prompts of its kind."""

    title: str
    target: Path
    drafters: Mapping[str, Path]
    defaults: Mapping[int, tuple[str, ...]]
    revisions: Mapping[str, str]
    good_at: str = ""
    familiar_nats: float = float("inf")
    familiar: tuple[str, ...] = ()
    acceptance_lengths: Mapping[int, float] = field(default_factory=lambda: TYPICAL_LENGTHS)


def has_card(folder: Path) -> bool:
    """Whether this folder holds a rig; False for a name that no folder can have."""
    try:
        return (folder / CARD).is_file()
    except (OSError, ValueError):
        return False


def card_parts(folder: Path, opening: Opening) -> RigParts:
    """The parts that a folder's card names; a target in a package is fetched. RigError says which field is missing or
    of the wrong kind."""
    card = _read(folder)
    names = _names(folder, "heads", card["heads"])
    defaults = {count: _names(folder, "defaults", chosen) for count, chosen in card["defaults"].items()}
    for count, chosen in defaults.items():
        if count not in ("0", "1", "2") or len(chosen) != int(count) or not {*chosen} <= {*names, NGRAM}:
            raise RigError(f"{CARD} in {called(folder)} has {str(chosen)[:60]} for {count[:20]!r} drafters under "
                           f"'defaults'; it has to be as many of {', '.join((*names, NGRAM))}, for \"1\" or \"2\".")
    target, package = folder / "target", card.get("package")
    if package and not target.is_dir():  # the container image has it there already
        target = packaged(folder.name, package, opening.tell)
    return RigParts(
        card["title"], target, {name: folder / name for name in names},
        {int(count): tuple(chosen) for count, chosen in defaults.items()},
        {str(name): str(value) for name, value in card.get("revisions", {}).items()}, card.get("good_at", ""),
        float(card.get("familiar_nats", "inf")), tuple(map(str, card.get("familiar", ()))),
        _lengths(folder, card.get("acceptance_lengths", {})))


def _read(folder: Path) -> dict[str, Any]:
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RigError(f"{CARD} in {called(folder)} is not JSON: {first_line(error)}.") from error
    if not isinstance(card, dict):
        raise RigError(f"{CARD} in {called(folder)} holds a {type(card).__name__}; it has to be an object.")
    missing = [name for name in NEEDED if name not in card]
    if missing:
        raise RigError(f"{CARD} in {called(folder)} has no {missing[0]!r}.")
    for name, (kind, said) in KINDS.items():
        value = card.get(name)
        if name in card and (not isinstance(value, kind) or isinstance(value, bool)):
            raise RigError(f"{CARD} in {called(folder)} has {str(value)[:60]!r} under {name!r}; it has to be {said}.")
    return card


def _lengths(folder: Path, value: Mapping[str, Any]) -> Mapping[int, float]:
    """Acceptance lengths by budget; those that the card lacks are typical ones."""
    try:
        lengths = {int(nodes): float(length) for nodes, length in value.items()}
    except (TypeError, ValueError, OverflowError):
        lengths = {0: 0.0}
    if not all(1 <= length <= nodes + 1 for nodes, length in lengths.items()):
        raise RigError(f"{CARD} in {called(folder)} has {str(dict(value))[:60]!r} under 'acceptance_lengths'; it has "
                       "to hold tokens per round by node budget, each from 1 to the budget + 1.")
    return {**TYPICAL_LENGTHS, **lengths}


def _names(folder: Path, field: str, value: Any) -> list[str]:
    """A list of names of folders beside the card; RigError for any other value or path."""
    if not isinstance(value, list) or not all(
            isinstance(name, str) and name and Path(name).name == name for name in value):
        raise RigError(f"{CARD} in {called(folder)} has {str(value)[:60]!r} under {field!r}; it has to be a list of "
                       "names of folders beside it.")
    return value
