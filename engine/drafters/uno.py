"""UNO drafters: one more pass of the target over its own cache, in which an adapter (LoRA) changes the rows of noise.

A block is [root, noise, …, noise]; each row sees those before it. The root's row is the target's own: its choice is the
next token, which the target will choose again. The i-th noise row, a random token, predicts the token i + 1 places
after the root by itself, so these are marginals. Nothing of the block is kept. SGLang begins its tree below the root's
choice; here that token is the lattice's first depth, with probability 1, so the trees are the same.

Sources: SGLang 0.5.23 (``uno_*.py``), whose noise is uniform over the vocabulary, and the card of ``ifm-ai/uno``.
"""

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn.functional import linear

from engine.checkpoints.files import display_name, read_config
from engine.checkpoints.weights import load_weights
from engine.drafters.dflash.lattices import marginals
from engine.drafters.kinds import DrafterPlan, StrictFields, TargetFacts, check_equal, parse_fields, refuse_unknown
from engine.errors import RigError
from engine.models.device import in_inference_mode
from engine.models.layers import GatedMlp, Layer
from engine.models.packed_linear import PackedLinear
from engine.models.passes import FusedPass
from engine.models.target import TorchTarget
from engine.records import Integers, Lattice

DEFAULT_BLOCK = 8  # rows of a block if the rig's name gives no other size
PEFT_FIELDS = frozenset({
    "peft_type", "r", "lora_alpha", "target_modules", "use_rslora", "base_model_name_or_path", "revision", "task_type",
    "peft_version", "inference_mode", "lora_dropout", "init_lora_weights", "auto_mapping", "exclude_modules"})
Adapter = tuple[Tensor, Tensor]  # (rank, inputs) and, scaled, (outputs, rank)


class AdapterSizes(StrictFields):
    """The rank r; an adapter's product is multiplied by α ÷ r, or by α ÷ √r."""

    r: PositiveInt
    lora_alpha: float
    use_rslora: bool = False


class AdaptedLinear(PackedLinear):
    """A product of several projections, whose adapters apply to all rows but the first."""

    def __init__(self, product: PackedLinear, adapters: list[Adapter | int]) -> None:
        self.product, self.adapters = product, adapters  # or, without an adapter, a number of outputs

    def __call__(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """See ``PackedLinear``; inputs (rows, inputs)."""
        outputs, noise = self.product(inputs, residual), inputs[1:]
        outputs[1:] += torch.cat([
            noise.new_zeros(len(noise), adapter) if isinstance(adapter, int)
            else linear(linear(noise, adapter[0]), adapter[1]) for adapter in self.adapters], -1)
        return outputs


class UnoDrafter:
    """The target's pass with adapters, over the cache of the run's own target."""

    def __init__(self, adapted: FusedPass, vocabulary: int, width: int = DEFAULT_BLOCK) -> None:
        self.adapted, self.vocabulary, self.width = adapted, vocabulary, width
        self.release()

    def use_target(self, target: TorchTarget) -> None:
        self._target: TorchTarget | None = target

    def begin(self, rows: int) -> None:
        """See ``protocols.Drafter``: the target has the only cache."""
        self._length = 0

    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``protocols.Drafter``: the target has read them."""
        self._length += len(token_ids)

    def release(self) -> None:
        self._target, self._length = None, 0

    def fork(self) -> Self:
        other = copy(self)
        other.release()
        return other

    @in_inference_mode
    def draft(self, root: int, width: int) -> Lattice:
        """Return a lattice of one row per depth; the first holds the target's choice alone."""
        assert self._target is not None
        block = [root, *noise_tokens(self._length, self.width - 1, self.vocabulary).tolist()]
        choice, logits = self._target.look_ahead(block, self.adapted)
        lattice = marginals(logits, width)
        lattice.tokens[0], lattice.logprobs[0] = choice, -np.inf
        lattice.logprobs[0, :, 0] = 0
        return lattice


def noise_tokens(start: int, count: int, vocabulary: int) -> Integers:
    """Draw uniform tokens (count,) int32, the same for every draft at this position."""
    return np.random.default_rng(start).integers(0, vocabulary, count, np.int32)


def recognises(values: Mapping[str, Any]) -> bool:
    """Return whether a config is that of a low-rank adapter."""
    return values.get("peft_type") == "LORA"


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """Plan an adapter; RigError if it has unsupported options."""
    values = read_config(folder)
    sizes = parse_fields(folder, AdapterSizes, values)
    refuse_unknown(folder, {name: value for name, value in values.items() if name not in PEFT_FIELDS})
    scale = sizes.lora_alpha / (sizes.r ** 0.5 if sizes.use_rslora else sizes.r)
    return DrafterPlan((), partial(_load, folder, scale, target.block_size or DEFAULT_BLOCK), sees_path=False)


def _load(folder: Path, scale: float, width: int, target: TorchTarget) -> UnoDrafter:
    if not isinstance(target.fastest, FusedPass):
        raise RigError(f"The adapter in {display_name(folder)} needs a target with Qwen's, Llama's or Mistral's layers "
                       f"on one device; a {target.config.model_type} is run by transformers' own code.")
    weights = {name.removeprefix("base_model.model."): value.to(target.device, target.model.dtype)
               for name, value in load_weights(folder).items()}
    modules = target.model.get_decoder().layers
    adapted = target.fastest.with_layers([
        _adapted(layer, partial(_pop_adapter, folder, weights, scale, f"model.layers.{number}.", module))
        for number, (layer, module) in enumerate(zip(target.fastest.layers, modules, strict=True))])
    if weights:
        raise RigError(f"The adapter in {display_name(folder)} has {min(weights)} (and {len(weights) - 1} more "
                       "tensors), which has no place in its target.")
    return UnoDrafter(adapted, int(target.config.vocab_size), width)


def _adapted(layer: Layer, adapter_of: Callable[[str], Adapter | int]) -> Layer:
    """Return a layer with its adapters; ``adapter_of`` gives that of a projection."""
    other = copy(layer)
    other.inputs = AdaptedLinear(layer.inputs, [adapter_of(f"self_attn.{part}_proj") for part in "qkv"])
    other.out = AdaptedLinear(layer.out, [adapter_of("self_attn.o_proj")])
    if isinstance(layer.mlp, GatedMlp):
        other.mlp = copy(layer.mlp)
        other.mlp.gate_up = AdaptedLinear(layer.mlp.gate_up, [adapter_of("mlp.gate_proj"), adapter_of("mlp.up_proj")])
        other.mlp.down = AdaptedLinear(layer.mlp.down, [adapter_of("mlp.down_proj")])
    return other


def _pop_adapter(folder: Path, weights: dict[str, Tensor], scale: float, prefix: str, module: nn.Module,
                 name: str) -> Adapter | int:
    """Take a projection's adapter out of the weights; without one, return its number of outputs."""
    projection: Any = module.get_submodule(name)
    stem = f"{prefix}{name}.lora_"
    down, up = (weights.pop(f"{stem}{part}.weight", None) for part in "AB")
    if down is None or up is None:
        return int(projection.out_features)
    check_equal(folder, f"inputs of {stem}", down.shape[1], projection.in_features)
    check_equal(folder, f"outputs of {stem}", len(up), projection.out_features)
    return down, up * scale
