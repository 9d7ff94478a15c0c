"""Kinds of drafter checkpoints: a folder and the target it is for in, a plan of the drafter out. One file a kind.

A plan is made from configs alone, so what does not fit is said before anything large is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig

from engine.decode import Drafter
from engine.errors import RigError
from engine.registry import Table
from engine.runtime.files import called
from engine.runtime.target import TorchTarget


@dataclass(frozen=True)
class TargetFacts:
    """The target before it is loaded: its folder, for the tokenizer, and the config of its text model."""

    folder: Path
    config: PreTrainedConfig


@dataclass(frozen=True)
class HeadPlan:
    """What a drafter will be: the layers of the target that it reads, whether it sees its own path, and how to load
    it once the target is there. ``thinking`` says whether it was trained on answers that think first."""

    taps: tuple[int, ...]
    load: Callable[[TorchTarget], Drafter]
    family: str = "path"
    thinking: bool = True


KINDS: Table[Callable[[Path, TargetFacts], HeadPlan]] = Table(
    "engine.runtime.kinds", "dflash", "eagle3", "autoregressive")


def kind_of(values: Mapping[str, Any]) -> str:
    """Which kind a config.json describes: what its options and architectures say of themselves."""
    architectures = " ".join(values.get("architectures") or ()).lower()
    if "dflash_config" in values or "dflash" in architectures:
        return "dflash"
    if "eagle3" in architectures or "draft_vocab_size" in values:
        return "eagle3"
    return "autoregressive"


def must_fit(folder: Path, what: str, own: object, target: object) -> None:
    """RigError where a drafter's figure is not the target's."""
    if own != target:
        raise RigError(f"The drafter in {called(folder)} has {what} {own}; the target has {target}. A drafter serves "
                       "only the target it was trained on.")


def must_tap(folder: Path, taps: tuple[int, ...], target: PreTrainedConfig) -> None:
    """RigError where a tap is not a layer of the target."""
    layers = int(target.num_hidden_layers)
    beyond = [tap for tap in taps if not isinstance(tap, int) or not 0 <= tap < layers]
    if beyond or not taps:
        raise RigError(f"The drafter in {called(folder)} reads the target's layers "
                       f"{', '.join(map(str, taps)) or 'none'}; the target has layers 0 to {layers - 1}. A drafter "
                       "serves only the target it was trained on.")


def must_be(folder: Path, values: Mapping[str, Any], kind: type, said: str) -> None:
    """RigError naming the first of these fields of config.json that is not of the kind, ``said`` in words."""
    for name, value in values.items():
        if not isinstance(value, kind) or isinstance(value, bool):
            raise RigError(f"config.json in {called(folder)} has {name} {value!r:.60}; it has to be {said}.")


def nested(rope: Mapping[str, Any]) -> str:
    """What is said of rotary parameters that differ from kind of layer to kind of layer; empty where they do not."""
    return ", ".join(name for name, value in rope.items() if isinstance(value, Mapping))


def off(value: object) -> bool:
    """Whether an option's value switches it off."""
    return value is None or value is False or value == 0 or value in ("", "none", [], {})


def must_know(folder: Path, options: Mapping[str, Any]) -> None:
    """RigError naming the options that change what the drafter computes and that are not implemented."""
    unknown = {name: value for name, value in options.items() if not off(value)}
    if unknown:
        said = ", ".join(f"{name} = {str(value)[:60]}" for name, value in sorted(unknown.items()))
        raise RigError(f"The drafter in {called(folder)} uses {said}, which is not supported; running it without would "
                       "give other proposals than it was trained for.")
