"""Kinds of drafter checkpoints, a module each. A kind plans a drafter from its folder and the target's facts.

A plan is made from configs alone, so a misfit is reported before anything large is read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError
from torch import Tensor
from transformers import PreTrainedConfig

from engine.checkpoints.files import display_name, read_config
from engine.decoding.protocols import Drafter
from engine.errors import RigError
from engine.models.passes import has_static_rope
from engine.models.target import TorchTarget

Fields = TypeVar("Fields", bound="StrictFields")


@dataclass(frozen=True)
class TargetFacts:
    """The target before it is loaded: its folder, its text model's config, and the block size that the rig's name gives
    a block-diffusion drafter."""

    folder: Path
    config: PreTrainedConfig
    block_size: int | None = None


@dataclass(frozen=True)
class DrafterPlan:
    """How to load a drafter: ``load`` takes the target. ``taps`` are the target layers that it reads. ``thinking``:
    whether it was trained on answers that think first (None: unknown). ``note`` is a sentence for people, ``kind`` its
    name in traces."""

    taps: tuple[int, ...]
    load: Callable[[TorchTarget], Drafter]
    sees_path: bool = True
    thinking: bool | None = None
    note: str = ""
    kind: str = ""


# Modules with ``recognises`` (does this config.json describe one?) and ``plan`` (RigError if it cannot run on this
# target as it was trained), tried in this order; the last takes every other checkpoint for a language model.
KINDS = ("dflash", "eagle3", "mtp", "uno", "phrases", "autoregressive")


def kind_named(name: str) -> ModuleType:
    """Import the kind of that name; its module imports this one."""
    return import_module(f"engine.drafters.{name}")


# Published drafters that no kind supports, by a part of their architecture's or format's name.
UNSUPPORTED_FAMILIES: Mapping[str, str] = MappingProxyType({
    "xpress": "an xPress drafter, whose proposals depend on every token before them in the block",
    "lilicorr": "a LiLiCorr drafter, whose transitions come from a second model over all candidates",
    "museglimmerassistant": "the block-diffusion drafter of Muse Glimmer in the form of transformers",
    "gemma4dspark": "a DSpark drafter of Gemma 4, whose layers have heads of two sizes",
    "musesparkdspark": "a DSpark drafter of Muse Spark, whose layers are not Qwen3's",
    "dflashlaguna": "a DFlash drafter of Laguna, whose attention is gated",
    "peagle": "a P-EAGLE drafter, which drafts several positions in one pass",
    "hspec": "an H-Spec drafter",
    "mtp": "a layer for multi-token prediction outside of its target's checkpoint (TARGET::mtp is the target's own)"})

THINKING = "trained_with_thinking"


class StrictFields(BaseModel):
    """Fields of a config.json, each of exactly its type."""

    model_config = ConfigDict(strict=True)


class CommonFields(StrictFields):
    """Fields that several kinds read."""

    vocab_size: PositiveInt | None = None
    draft_vocab_size: PositiveInt | None = None
    target_hidden_size: PositiveInt | None = None
    trained_with_thinking: bool | None = None
    is_causal: bool | None = None
    dflash_config: dict[str, Any] | None = None
    eagle_config: dict[str, Any] | None = None


def plan_drafter(folder: Path, target: TargetFacts) -> DrafterPlan:
    """Plan the drafter in a folder, by the first kind that recognises its config.json."""
    values = read_config(folder)
    format_ = values.get("speculators_model_type")
    architecture = architectures(values) if format_ is None else str(format_)
    if family := next((text for part, text in UNSUPPORTED_FAMILIES.items() if part in architecture), ""):
        raise RigError(f"The drafter in {display_name(folder)} is {family}; DFlash, DFlash 2, DSpark, TreeFlash, "
                       "EAGLE-3, MTP, UNO and phrase drafters run, and language models.")
    common = parse_fields(folder, CommonFields, values)
    name = next(name for name in KINDS if kind_named(name).recognises(values))
    plan: DrafterPlan = kind_named(name).plan(folder, target)
    thinking = plan.thinking if common.trained_with_thinking is None else common.trained_with_thinking
    return replace(plan, kind=plan.kind or name, thinking=thinking)


def architectures(values: Mapping[str, Any]) -> str:
    """Return the architectures in a config.json, in lower case; TypeError if they are not names."""
    return " ".join(values.get("architectures") or ()).lower()


def check_equal(folder: Path, name: str, value: object, target: object) -> None:
    """Raise RigError if a drafter's figure differs from the target's."""
    if value != target:
        raise RigError(f"The drafter in {display_name(folder)} has {name} {value!r:.60}; the target has {target}; a "
                       "drafter serves only the target it was trained on.")


def check_taps(folder: Path, taps: tuple[int, ...], target: PreTrainedConfig) -> None:
    """Raise RigError if a tap is not a layer of the target."""
    layers = int(target.num_hidden_layers)
    outside = [tap for tap in taps if not isinstance(tap, int) or not 0 <= tap < layers]
    if outside or not taps:
        raise RigError(f"The drafter in {display_name(folder)} reads the target's layers "
                       f"{', '.join(map(repr, taps)) or 'none'}; the target has layers 0 to {layers - 1}; a drafter "
                       "serves only the target it was trained on.")


def parse_fields(folder: Path, fields: type[Fields], values: Mapping[str, Any]) -> Fields:
    """Parse these fields of a config.json; RigError names the first that is missing or of another type."""
    try:
        return fields.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        remedy = "; name one behind the drafter, as in DRAFTER?block_size=7" if name == "block_size" else ""
        raise RigError(f"config.json in {display_name(folder)} has {name} {values.get(name)!r:.60} "
                       f"({first['msg'].lower()}){remedy}.") from error


def tap_columns(target: TorchTarget, taps: Sequence[int]) -> Tensor | slice:
    """Return the columns of the target's features that belong to a drafter's taps; others belong to other drafters."""
    if target.taps == tuple(taps):
        return slice(None)
    size = int(target.config.hidden_size)
    return torch.cat([torch.arange(size) + size * target.taps.index(tap) for tap in taps]).to(target.device)


def unsupported_rope_fields(config: PreTrainedConfig) -> dict[str, object]:
    """Return rotary parameters that no drafter supports, for ``refuse_unknown``: those that differ between kinds of
    layers, and types whose angles depend on the text's length."""
    rope = config.rope_parameters or {}
    return {"rope_parameters": ", ".join(name for name, value in rope.items() if isinstance(value, Mapping)),
            "rope_type": "" if has_static_rope(config) else rope.get("rope_type", "mixed")}


def is_switched_off(value: object) -> bool:
    """Return whether an option's value switches it off."""
    return value is None or value is False or value == 0 or value in ("", "none", [], {})


def refuse_unknown(folder: Path, options: Mapping[str, Any]) -> None:
    """Raise RigError naming the options that change what the drafter computes and are not implemented."""
    unknown = {name: value for name, value in options.items() if not is_switched_off(value)}
    if unknown:
        used = ", ".join(f"{name} = {str(value)[:60]}" for name, value in sorted(unknown.items()))
        raise RigError(f"The drafter in {display_name(folder)} uses {used}, which Canopy does not support; choose "
                       "another drafter.")
