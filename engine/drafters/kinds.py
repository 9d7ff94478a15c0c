"""Kinds of drafter checkpoints, a file or folder each: each makes a plan of a drafter from its folder and its target.

A plan is made from configs alone, so a misfit is reported before anything large is read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self, cast

from torch import Tensor
from transformers import PreTrainedConfig

from engine.checkpoints.files import display_name, read_config
from engine.decoding.protocols import BatchDrafter, Drafter
from engine.errors import RigError
from engine.models.passes import is_steady
from engine.models.target import TorchTarget
from engine.records import Integers, Lattice


@dataclass(frozen=True)
class TargetFacts:
    """The target before it is loaded: its folder, for the tokenizer, and the config of its text model; and the block
    size that the rig's name gives a block-diffusion drafter for it."""

    folder: Path
    config: PreTrainedConfig
    block_size: int | None = None


@dataclass(frozen=True)
class DrafterPlan:
    """How to load a drafter: the target's layers that it reads, a function that loads it once the target is loaded, and
    whether it sees its own path. ``thinking`` says whether it was trained on answers that think first, None if nothing
    says so; ``note`` is a sentence for people, ``kind`` the name of its kind in traces."""

    taps: tuple[int, ...]
    load: Callable[[TorchTarget], Drafter]
    sees_path: bool = True
    thinking: bool | None = None
    note: str = ""
    kind: str = ""


class NarrowedDrafter:
    """A drafter that reads only some of the target's taps, if other drafters of the rig need more: it selects the
    feature columns (n,) int64 that the drafter inside was trained on, in its order."""

    def __init__(self, inside: Drafter, columns: Tensor) -> None:
        self.inside, self.columns = inside, columns
        self.begin, self.draft, self.release = inside.begin, inside.draft, inside.release

    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``protocols.Drafter``. features (tokens, all taps × hidden size)."""
        self.inside.observe(token_ids, features.index_select(-1, self.columns))

    def fork(self) -> Self:
        return type(self)(self.inside.fork(), self.columns)

    @property
    def weights(self) -> object:
        return self.inside.weights if isinstance(self.inside, BatchDrafter) else self.inside

    def draft_batch(self, forks: Sequence[Self], roots: Sequence[int], widths: Sequence[int]) -> list[Lattice]:
        """One draft after another if the drafter inside has no drafts in one pass."""
        inside = [fork.inside for fork in forks]
        if isinstance(self.inside, BatchDrafter):
            return self.inside.draft_batch(inside, roots, widths)
        return [drafter.draft(*arguments) for drafter, *arguments in zip(inside, roots, widths, strict=True)]


class Kind(Protocol):
    """A kind of checkpoint, a module with two functions. ``recognises`` says whether a config.json describes one;
    ``plan`` makes its plan, and raises RigError if it cannot run on this target as it was trained."""

    recognises: Callable[[Mapping[str, Any]], bool]
    plan: Callable[[Path, TargetFacts], DrafterPlan]


# Asked in this order; the last takes every other checkpoint for a language model.
KINDS = ("dflash", "eagle3", "mtp", "uno", "phrases", "autoregressive")


def kind_named(name: str) -> Kind:
    """Import the kind of that name; its module imports this one."""
    return cast(Kind, import_module(f"engine.drafters.{name}"))


# Published drafters of families that none of the kinds runs, by a part of their architecture's or format's name.
NOT_RUN: Mapping[str, str] = MappingProxyType({
    "xpress": "an xPress drafter, whose proposals depend on every token before them in the block",
    "lilicorr": "a LiLiCorr drafter, whose transitions come from a second model over all candidates",
    "museglimmerassistant": "the block-diffusion drafter of Muse Glimmer in the form of transformers",
    "gemma4dspark": "a DSpark drafter of Gemma 4, whose layers have heads of two sizes",
    "musesparkdspark": "a DSpark drafter of Muse Spark, whose layers are not Qwen3's",
    "dflashlaguna": "a DFlash drafter of Laguna, whose attention is gated",
    "peagle": "a P-EAGLE drafter, which drafts several positions in one pass",
    "hspec": "an H-Spec drafter",
    "mtp": "a layer for multi-token prediction outside of its target's checkpoint (TARGET::mtp is the target's own)"})

THINKING = "trained_with_thinking"  # in config.json, of any kind
COUNT_FIELDS = ("vocab_size", "draft_vocab_size", "target_hidden_size")  # in config.json, of any kind


def plan_drafter(folder: Path, target: TargetFacts) -> DrafterPlan:
    """Return the plan of the drafter in a folder, by the first kind that recognises its config.json."""
    values = read_config(folder)
    format_ = values.get("speculators_model_type")
    named = architectures(values) if format_ is None else str(format_)
    if what := next((what for part, what in NOT_RUN.items() if part in named), ""):
        raise RigError(f"The drafter in {display_name(folder)} is {what}; DFlash, DFlash 2, DSpark, TreeFlash, "
                       "EAGLE-3, MTP, UNO and phrase drafters run, and language models.")
    for name in COUNT_FIELDS:
        if values.get(name) is not None:
            check_count(folder, values, name)
    name = next(name for name in KINDS if kind_named(name).recognises(values))
    plan = kind_named(name).plan(folder, target)
    thinking = values.get(THINKING, plan.thinking)
    if thinking not in (None, True, False):
        raise RigError(f"config.json in {display_name(folder)} has {THINKING} {thinking!r:.60}; it has to be true or "
                       "false.")
    return replace(plan, kind=plan.kind or name, thinking=thinking)


def architectures(values: Mapping[str, Any]) -> str:
    """Return the architectures in a config.json, in lower case; TypeError if they are not names."""
    return " ".join(values.get("architectures") or ()).lower()


def check_equal(folder: Path, what: str, value: object, target: object) -> None:
    """RigError if a drafter's figure differs from the target's."""
    if value != target:
        raise RigError(f"The drafter in {display_name(folder)} has {what} {value!r:.60}; the target has {target}; a "
                       "drafter serves only the target it was trained on.")


def check_taps(folder: Path, taps: tuple[int, ...], target: PreTrainedConfig) -> None:
    """RigError if a tap is not a layer of the target."""
    layers = int(target.num_hidden_layers)
    outside = [tap for tap in taps if not isinstance(tap, int) or not 0 <= tap < layers]
    if outside or not taps:
        raise RigError(f"The drafter in {display_name(folder)} reads the target's layers "
                       f"{', '.join(map(repr, taps)) or 'none'}; the target has layers 0 to {layers - 1}; a drafter "
                       "serves only the target it was trained on.")


def check_type(folder: Path, values: Mapping[str, Any], kind: type | tuple[type, ...], wanted: str) -> None:
    """RigError naming the first of these config.json fields that is of another type than ``wanted`` says."""
    for name, value in values.items():
        if not isinstance(value, kind) or isinstance(value, bool):
            raise RigError(f"config.json in {display_name(folder)} has {name} {value!r:.60}; it has to be {wanted}.")


def check_count(folder: Path, values: Mapping[str, Any], name: str) -> None:
    """RigError if this field of config.json is no whole number above 0."""
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise RigError(f"config.json in {display_name(folder)} has {name} {value!r:.60}; it has to be a whole number "
                       "above 0, without quotes.")


def unsteady_rope(config: PreTrainedConfig) -> dict[str, object]:
    """Return rotary parameters that no drafter follows, for ``refuse_unknown``: ones that differ between kinds of
    layers, and a kind whose angles depend on the text's length."""
    rope = config.rope_parameters or {}
    return {"rope_parameters": ", ".join(name for name, value in rope.items() if isinstance(value, Mapping)),
            "rope_type": "" if is_steady(config) else rope.get("rope_type", "mixed")}


def off(value: object) -> bool:
    """Return whether an option's value switches it off."""
    return value is None or value is False or value == 0 or value in ("", "none", [], {})


def refuse_unknown(folder: Path, options: Mapping[str, Any]) -> None:
    """RigError naming the options that change what the drafter computes and that are not implemented."""
    unknown = {name: value for name, value in options.items() if not off(value)}
    if unknown:
        used = ", ".join(f"{name} = {str(value)[:60]}" for name, value in sorted(unknown.items()))
        raise RigError(f"The drafter in {display_name(folder)} uses {used}; it is not known here what that changes in "
                       "its proposals, and its tensors do not show that it changes nothing, so it does not run.")
