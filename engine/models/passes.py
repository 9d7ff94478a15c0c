"""The target's two forward passes over new rows behind its cache: transformers' own code, and a fused pass that
computes the same in fewer dispatches.

Both write the rows' keys and values into the cache, and return logits and the outputs of the tapped layers. The fused
pass serves the architectures that it knows. Transformers' code serves all others, and reads prompts unless weights are
4-bit.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from transformers import PreTrainedModel

from engine.models.attention import EAGER, FUSED
from engine.models.cache import LayeredCache, TreeCache, cache_argument
from engine.models.device import gpus_of
from engine.models.layers import (
    AttentionContext,
    Experts,
    Layer,
    Rotations,
    additive_mask,
    norm_of,
    query_heads_per_kv_row,
)
from engine.models.packed_linear import ATTENTION_DTYPE, GROUP, Levels, LevelsRule, PackedHead
from engine.models.rows import PassPart, PassRows

log = logging.getLogger("canopy.passes")
Result = TypeVar("Result")
FUSED_ARCHITECTURES = frozenset({"llama", "mistral", "qwen2", "qwen3", "qwen3_moe"})  # only pre-norm, rotary, SiLU
# A tree's pass reads a multiple of this many slots: fused attention on a CPU compiles a kernel for each new number.
SLOT_MULTIPLE = 32
MAX_COMPILED_ROWS = 16  # of a pass; with more, torch on several threads is as fast as compiled norms and gates on one
STATIC_ROPE_TYPES = frozenset({"default", "linear", "llama3", "yarn"})  # others' angles depend on the text's length

AnyCache = TreeCache | LayeredCache


class PassOutput(NamedTuple):
    """A forward pass's logits (requested rows, vocabulary) in the model's dtype, and tapped (rows, taps × hidden
    size)."""

    logits: Tensor
    tapped: Tensor


class ReferencePass(nn.Module):
    """Transformers' own forward, with hooks on the tapped layers."""

    def __init__(self, model: PreTrainedModel, taps: Sequence[int]) -> None:
        super().__init__()
        self.model, self.taps = model, tuple(taps)
        self._cache_name = cache_argument(model)
        self._tapped: dict[int, Tensor] = {}
        self._interrupts: list[Callable[[], None]] = []  # of the pass in progress
        # The hooks refer to these two, not to the pass: a cycle would keep the weights after the rig is gone.
        for layer in getattr(model.get_decoder(), "layers", ()):
            layer.register_forward_pre_hook(partial(call_each, self._interrupts))
        for layer in self.taps:
            model.get_decoder().layers[layer].register_forward_hook(partial(keep_output, self._tapped, layer))

    def forward(self, parts: Sequence[PassPart]) -> list[PassOutput]:
        """Run one pass per part, causal if ``visible`` is None; return logits and taps of all rows."""
        return [self._run(*part) for part in parts]

    def prefill(self, part: PassPart) -> PassOutput:
        """Return taps of all rows and logits of the last. Does not call ``forward``, because bench times that."""
        return self._run(*part, last=1)

    def _run(self, rows: PassRows, cache: Any, interrupt: Callable[[], None] | None, last: int = 0) -> PassOutput:
        tokens, visible = rows.tokens, rows.visible
        if isinstance(cache, LayeredCache):
            cache.tree, cache.replays = None if visible is None else rows, []
        mask = None
        if visible is not None and not (isinstance(cache, LayeredCache) and not cache.slots):  # recurrent in all layers
            like = self.model.get_input_embeddings().weight
            if self.model.config.get_text_config()._attn_implementation in (FUSED, EAGER):
                mask = torch.cat([visible.new_ones(len(visible), cache.length), visible], -1)[None]  # see ``tree_mask``
            else:
                mask = additive_mask(visible, cache.length, like)
        if interrupt:
            self._interrupts.append(interrupt)
        try:
            output = self.model(
                input_ids=tokens.long()[None], position_ids=rows.positions.long()[None], attention_mask=mask,
                use_cache=True, logits_to_keep=last, **{self._cache_name: cache})
        finally:
            self._interrupts.clear()
        tapped = [self._tapped.pop(layer)[0].to(tokens.device) for layer in self.taps]  # from the device of the layer
        return PassOutput(output.logits[0].to(tokens.device), concat_taps(tapped))


def call_each(functions: Sequence[Callable[[], None]], _module: nn.Module, _inputs: object) -> None:
    """Call the functions, as a hook before a layer."""
    for function in functions:
        function()


def keep_output(outputs: dict[int, Tensor], layer: int, _module: nn.Module, _inputs: object,
                output: Tensor | tuple[Tensor, ...]) -> None:
    """Store a layer's output, as a hook behind it."""
    outputs[layer] = output if isinstance(output, Tensor) else output[0]


class FusedPass(nn.Module):
    """The reference pass's arithmetic, computed with ``layers.Layer``."""

    def __init__(self, model: PreTrainedModel, taps: Sequence[int]) -> None:
        super().__init__()
        config = model.config.get_text_config()
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.base, self.head = model.get_decoder(), PackedHead(model.get_output_embeddings())
        self.norm = norm_of(self.base.norm)
        self.layers = [Layer(layer, size) for layer in self.base.layers]
        self.groups = query_heads_per_kv_row(config, self.base.embed_tokens.weight)
        self.rotations = Rotations(
            self.base.rotary_emb, self.base.embed_tokens.weight, config.max_position_embeddings)
        self.taps = tuple(taps)
        self.attention_dtype = self.base.embed_tokens.weight.dtype
        self._compiled: Any = None  # see ``enable_int4``

    def enable_int4(self, rule: LevelsRule | None = None) -> bool:
        """Multiply with 4-bit weights, found by the rule (see ``PackedLinear``); return whether most weights are 4-bit.
        If so, every method writes exactly plain decoding's text: products are batch-invariant, and attention is in
        float64, where rounding to bfloat16 hides the order of keys, which differs between a tree and a text. False for
        a mixture of experts, whose products transformers computes."""
        if any(isinstance(layer.mlp, Experts) for layer in self.layers):
            return False
        products = [product for layer in self.layers for product in layer.linears()]
        compiled = compiled_product()
        finer = [product for product in products if not product.enable_levels(rule, compiled)]
        if 2 * sum(product.weight.numel() for product in finer) >= sum(product.weight.numel() for product in products):
            return False
        for product in (*finer, self.head):
            if not (compiled and product.enable_levels(compiled.levels_of, compiled)):
                product.make_batch_invariant()
        self.attention_dtype = ATTENTION_DTYPE
        self._compiled = compiled_layers(self.layers)
        return True

    def with_layers(self, layers: Sequence[Layer]) -> Self:
        """Copy this pass with other layers in place of its own. They run through torch."""
        other = copy(self)
        other.layers = list(layers)
        other._compiled = None  # they hold this pass's own layers
        return other

    def forward(self, parts: Sequence[PassPart]) -> list[PassOutput]:
        """Run one pass over the rows of all texts; return logits and taps of all rows, by part."""
        rows = [len(part.rows.tokens) for part in parts]
        hidden, tapped = self._states(parts, rows)
        logits = self.head(self.norm(hidden))
        if len(parts) == 1:
            return [PassOutput(logits, tapped)]
        taps = tapped.split(rows) if self.taps else [tapped] * len(rows)
        return [PassOutput(*output) for output in zip(logits.split(rows), taps, strict=True)]

    def prefill(self, part: PassPart) -> PassOutput:
        """Return taps of all rows, and logits of the last one."""
        hidden, tapped = self._states([part], [len(part.rows.tokens)])
        return PassOutput(self.head(self.norm(hidden[-1:])), tapped)

    def _states(self, parts: Sequence[PassPart], rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the last layer's output and the taps, for the rows of all texts."""
        hidden = embedding(concat_texts([part.rows.tokens for part in parts]), self.base.embed_tokens.weight)
        positions = concat_texts([part.rows.positions for part in parts])
        rotation = self.rotations.at(positions, max([part.end for part in parts]))
        compiled = self._compiled if sum(rows) <= MAX_COMPILED_ROWS else None
        visible_to = [] if compiled else [self._visible_to(part) for part in parts]
        outputs, interrupts = [], [part.interrupt for part in parts if part.interrupt and len(parts) == 1]
        for number, layer in enumerate(self.layers):
            for interrupt in interrupts:
                interrupt()
            hidden = compiled.run(number, hidden, rotation, parts) if compiled else layer.run(hidden, rotation, [
                AttentionContext(count, slots[number], mask, spare, self.attention_dtype)
                for count, (slots, mask, spare) in zip(rows, visible_to, strict=True)])
            outputs.append(hidden)
        return hidden, concat_taps([outputs[layer] for layer in self.taps])

    def _visible_to(self, part: PassPart) -> tuple[Sequence[Tensor], Tensor | None, int]:
        """Return each layer's slots for a part's rows, their mask, and the number of spare slots at the end."""
        visible, multiple = part.rows.visible, 1 if part.rows.visible is None else SLOT_MULTIPLE
        slots = part.cache.slots[:, :, 0, :, :-(-part.end // multiple) * multiple]
        spare = slots.shape[3] - part.end
        like = slots.new_empty(0, dtype=self.attention_dtype)
        mask = None if visible is None else additive_mask(visible, part.cache.length, like, self.groups, spare)
        return slots.unbind(), mask, spare


def compiled_layers(layers: Sequence[Layer]) -> Any:
    """Return ``compiled.CompiledLayers`` of these layers; None if numba cannot compile."""
    def make() -> Any:
        from engine.models.compiled import CompiledLayers  # noqa: PLC0415  # it compiles when it is imported
        return CompiledLayers(layers)
    return unless_numba_fails(make)


def compiled_product() -> Any:
    """Return the class ``level_product.CompiledProduct``; None if numba cannot compile it, or torch's OpenMP is not
    GNU's."""
    def make() -> Any:
        from engine.models.compiled import GOMP_PARALLEL  # noqa: PLC0415  # it compiles when it is imported
        if GOMP_PARALLEL is None:
            return None
        from engine.models.level_product import CompiledProduct  # noqa: PLC0415  # it compiles when it is imported
        zeros = torch.zeros(1, 1, GROUP, dtype=torch.bfloat16)
        CompiledProduct(Levels(zeros, zeros[..., :2]))(zeros[0])  # raises here
        return CompiledProduct
    return unless_numba_fails(make)


def unless_numba_fails(make: Callable[[], Result]) -> Result | None:
    """Return what ``make`` returns; None if numba does not compile on this machine, or cannot write its cache."""
    try:
        return make()
    except Exception:  # of whatever kind: numba's own, LLVM's, or the file system's
        log.exception("numba cannot compile a part of the layers; torch runs it instead, more slowly.")
        return None


def concat_texts(texts: Sequence[Tensor]) -> Tensor:
    """Concatenate the rows of several texts; those of a single text are not copied."""
    return texts[0] if len(texts) == 1 else torch.cat(list(texts))


def concat_taps(tapped: Sequence[Tensor]) -> Tensor:
    """Concatenate the outputs of the tapped layers, (rows, hidden size) each, to (rows, taps × hidden size)."""
    return torch.cat(list(tapped), -1) if tapped else torch.empty(0)


def longrope_switch_length(config: Any) -> int | None:
    """Return the text length above which longrope uses its long factors; None for any other rotary embedding, and if
    both lists of factors are equal."""
    rope = getattr(config, "rope_parameters", None) or {}
    lengths = [int(part["original_max_position_embeddings"]) for part in (rope, *rope.values())
               if isinstance(part, Mapping) and part.get("rope_type") == "longrope"
               and list(part["short_factor"]) != list(part["long_factor"])]
    return min(lengths, default=None)


def has_static_rope(config: Any) -> bool:
    """Return whether a position's rotary angles are the same in every text."""
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = {part.get("rope_type", "default") for part in (rope, *rope.values()) if isinstance(part, Mapping)}
    return kinds <= (STATIC_ROPE_TYPES | {"longrope"} if longrope_switch_length(config) is None else STATIC_ROPE_TYPES)


def fused_pass_serves(model: PreTrainedModel) -> bool:
    """Return whether the fused pass computes the same as this model."""
    config = model.config.get_text_config()
    if config.model_type not in FUSED_ARCHITECTURES or getattr(config, "per_layer_attributes", None):
        return False
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    biased = any(module.bias is not None for name, module in model.get_decoder().layers.named_modules()
                 if isinstance(module, nn.Linear) and not name.endswith(("q_proj", "k_proj", "v_proj", "o_proj")))
    return (hasattr(model.get_decoder(), "layers") and config.hidden_act == "silu" and window is None and not biased
            and has_static_rope(config)
            and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
            and gpus_of(model) == 1)


def fastest_pass(model: PreTrainedModel, reference: ReferencePass) -> ReferencePass | FusedPass:
    """Return the fused pass if it serves the model, else the reference pass."""
    return FusedPass(model, reference.taps) if fused_pass_serves(model) else reference
