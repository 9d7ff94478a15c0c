"""A block-diffusion drafter: one pass proposes for a whole block."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from engine.drafters.dflash.lattices import marginals, transitions
from engine.drafters.dflash.model import FULL_ATTENTION, AttentionWindow, DFlashLayer, DFlashModel, convolve
from engine.drafters.fields import over_vocabulary
from engine.models.device import in_inference_mode
from engine.models.layers import (
    AttentionContext,
    KeysValues,
    Layer,
    Rotation,
    Rotations,
    append_first_half,
    apply_rotary,
    norm_of,
    query_heads_per_kv_row,
)
from engine.models.packed_linear import PackedHead, PackedLinear, join_projections
from engine.models.passes import concat_texts
from engine.records import Integers, Lattice, Proposals

ALL = slice(None)
MAX_BATCH_BYTES = 96 * 2**20  # of one batch of anchors' largest tensors


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """A prompt and its text: token_ids (all,) int32, and the target's features (all, taps × hidden size). Anchors are
    ``stride`` positions apart, from ``start`` on."""

    token_ids: Integers
    features: Tensor
    start: int
    stride: int = 1

    @property
    def anchors(self) -> Integers:
        """The anchors' positions, (anchors,) int32."""
        return np.arange(self.start, len(self.token_ids), self.stride, dtype=np.int32)


@dataclass(frozen=True)
class BlockVariant:
    """How a block is laid out and read. ``masked_root``: the mask token replaces the root in slot 0. ``rotation`` gives
    cosines and sines of positions. ``first_slot`` is the first that proposes."""

    mask_id: int
    rotation: Callable[[Tensor], tuple[Tensor, Tensor]]
    first_slot: int
    masked_root: bool = False


class BlockLayer(Layer):
    """A drafter's layer with DFlash 2's convolutions around attention and MLP."""

    def __init__(self, layer: DFlashLayer, head_size: int) -> None:
        super().__init__(layer, head_size)
        self.attention_conv, self.mlp_conv = layer.attention_conv, layer.mlp_conv

    def run(self, hidden: Tensor, rotation: Rotation, contexts: Sequence[AttentionContext]) -> Tensor:
        """See ``Layer.run``; each text's rows are whole blocks."""
        attend = partial(self.attention, rotation=rotation, contexts=contexts)
        hidden = convolve(self.attention_conv, self.first_norm(hidden), attend) + hidden
        return convolve(self.mlp_conv, self.second_norm(hidden), self.mlp) + hidden


class DFlashDrafter:
    """The drafter with its KV cache, whose keys and values come from features of committed tokens only."""

    def __init__(self, model: DFlashModel, embedding: nn.Embedding, head: PackedHead,
                 token_ids: Tensor | None = None, columns: Tensor | slice = ALL) -> None:
        self.model, self._columns = model.eval(), columns
        self.embedding, self.head = embedding, head
        config, options = model.config, model.config.dflash_config
        self.block: int = config.block_size
        self.mask_id: int = options["mask_token_id"]
        self.device: torch.device = model.fc.weight.device
        self._token_ids = None if token_ids is None else token_ids.to(self.device)  # of the head's rows
        kind = Layer if model.layers[0].attention_conv is None else BlockLayer
        self.layers = [kind(layer, config.head_dim) for layer in model.layers]
        self.norm, self._fused_norm = norm_of(model.norm), norm_of(model.hidden_norm)
        self._fuse, self._keys_values = PackedLinear(join_projections([model.fc])), KeysValues(self.layers)
        self._scale, self._multiplier, self._cap = (
            options.get("input_embedding_scale", 1.0), options.get("output_multiplier", 1.0),
            options.get("final_logit_softcapping"))
        self._block = torch.full((self.block,), self.mask_id, device=self.device)
        self.rotations = Rotations(model.rotary_emb, model.norm.weight, config.max_position_embeddings)
        self._windows = set(model.windows) - {FULL_ATTENTION}
        self._groups = query_heads_per_kv_row(config, model.norm.weight)
        self.release()

    @in_inference_mode
    def begin(self, rows: int) -> None:
        """See ``protocols.Drafter``: room for ``rows`` committed positions and one block after them."""
        config = self.model.config
        self._length = 0
        self._context = self.model.fc.weight.new_empty(
            config.num_hidden_layers, 2, config.num_key_value_heads, rows + self.block, config.head_dim)

    def release(self) -> None:
        self._context, self._length = torch.empty(0), 0

    def fork(self) -> Self:
        other = copy(self)
        other._block = self._block.clone()
        other.release()
        return other

    @property
    def weights(self) -> object:
        return self.model

    @property
    def variant(self) -> BlockVariant:
        """The block as it was trained."""
        return BlockVariant(self.mask_id, self.model.rotation, self.model.first_slot)

    @in_inference_mode
    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``protocols.Drafter``. features (tokens, taps × hidden size) become keys and values of each layer."""
        end = self._length + len(token_ids)
        keys, values = self._keys_values.project(self._fused_norm(self._fuse(features[:, self._columns])))
        keys = apply_rotary(append_first_half(keys), self.rotations.span(self._length, end))
        self._context[:, 0, :, self._length:end] = keys.transpose(1, 2)
        self._context[:, 1, :, self._length:end] = values.transpose(1, 2)
        self._length = end

    def draft(self, root: int, width: int) -> Lattice:
        """Return a lattice of block − 1 depths, or block if the root's slot proposes too: one row each (paper 002,
        section 3), or one per predecessor if transitions are scored."""
        return self.draft_batch([self], [root], [width])[0]

    @in_inference_mode
    def draft_batch(self, forks: Sequence[Self], roots: Sequence[int], widths: Sequence[int]) -> list[Lattice]:
        """See ``protocols.BatchDrafter``: one block after another, each over its own context."""
        ends = [fork._length + self.block for fork in forks]
        for fork, root in zip(forks, roots, strict=True):
            fork._block[0] = root
        tokens = concat_texts([fork._block for fork in forks])
        spans = [self.rotations.span(end - self.block, end) for end in ends]
        rotation = concat_texts([cosines for cosines, _ in spans]), concat_texts([sines for _, sines in spans])
        masks, hidden = [self._masks(end) for end in ends], self.embedded(tokens)
        for number, (layer, window) in enumerate(zip(self.layers, self.model.windows, strict=True)):
            hidden = layer.run(hidden, rotation, [
                AttentionContext(self.block, fork._context[number, :, :, :end], mask[window])
                for fork, end, mask in zip(forks, ends, masks, strict=True)])
        proposed = self.model.proposing(hidden.unflatten(0, (len(forks), self.block)))
        lattices = self.lattices(proposed, tokens[::self.block], max(widths))
        return [lattice.narrowed(width) for lattice, width in zip(lattices, widths, strict=True)]

    def _masks(self, end: int) -> dict[AttentionWindow, Tensor | None]:
        """Return the mask of a block that ends at ``end``, for each attention window among the layers."""
        masks: dict[AttentionWindow, Tensor | None] = {FULL_ATTENTION: None}
        for window in self._windows:
            positions = torch.arange(end, device=self.device)
            hidden = ~window.visible(positions[-self.block:], positions)
            mask = self.model.fc.weight.new_zeros(self.block, end).masked_fill_(hidden, -torch.inf)
            masks[window] = mask.repeat(self._groups, 1)[None, None]
        return masks

    def embedded(self, tokens: Tensor) -> Tensor:
        """Embed the tokens (…,) with the raw rows of the target's embedding, (…, hidden size)."""
        hidden = embedding(tokens, self.embedding.weight)
        return hidden if self._scale == 1.0 else hidden * self._scale

    def logits(self, hidden: Tensor) -> Tensor:
        """Return each slot's own logits (…, vocabulary), from normed hidden states (…, hidden size)."""
        logits = self.head(hidden) * self._multiplier if self._multiplier != 1.0 else self.head(hidden)
        logits = (logits / self._cap).tanh() * self._cap if self._cap else logits
        return logits if self._token_ids is None else over_vocabulary(
            logits, self._token_ids, self.model.config.vocab_size)

    def lattices(self, hidden: Tensor, roots: Tensor, width: int) -> list[Lattice]:
        """Return a lattice for each block, from hidden states (blocks, depth, hidden size) before the last norm, and
        roots (blocks,)."""
        model, normed = self.model, self.norm(hidden)
        logits = self.logits(normed)
        if model.candidate_selector is not None:
            return model.candidate_selector.lattices(logits, normed, roots, width)
        bias, correction = model.markov_head, model.ar_approximation
        if bias is None and correction is None:
            return [marginals(block, width) for block in logits]

        def after(block: int, slot: int, predecessors: Tensor) -> Tensor:
            last = normed[block, slot]
            if correction is not None:
                return self.logits(self.norm(hidden[block, slot] + correction(self.embedded(predecessors), last)))
            assert bias is not None
            biased: Tensor = logits[block, slot] + bias(last, predecessors)
            return biased
        return [transitions(partial(after, block), hidden.shape[1], root, width) for block, root in enumerate(roots)]

    @torch.inference_mode()
    def proposals(self, text: TextFeatures, width: int, variant: BlockVariant | None = None) -> Proposals:
        """Return the lattice at every anchor of the text, ``width`` tokens per row. Without a ``variant``, they are
        those of ``draft``."""
        variant, size = variant or self.variant, len(text.token_ids)
        token_ids, all_anchors = (
            torch.from_numpy(ids).long().to(self.device) for ids in (text.token_ids, text.anchors))
        context = self.model.context(
            text.features[None][..., self._columns], variant.rotation(torch.arange(size, device=self.device)))
        lattices: list[Lattice] = []
        for anchors in all_anchors.split(self._anchors_per_pass(size)):
            hidden = self._block_hidden(token_ids[anchors], anchors, context[..., :int(anchors[-1]), :], variant)
            lattices += self.lattices(hidden, token_ids[anchors], width)
        return lattices

    def _anchors_per_pass(self, size: int) -> int:
        """Return how many anchors fit into ``MAX_BATCH_BYTES`` for a text of this size."""
        config = self.model.config
        heads = 2 * config.num_key_value_heads * config.head_dim + config.num_attention_heads * self.block
        anchor_bytes = 4 * ((size + self.block) * heads + 3 * self.block * config.vocab_size)
        return int(max(1, min(64, MAX_BATCH_BYTES // anchor_bytes)))

    def _block_hidden(self, roots: Tensor, anchors: Tensor, context: Tensor, variant: BlockVariant) -> Tensor:
        """Return the hidden states of the slots that propose, (anchors, depth, hidden). Anchor p sees the features
        before p and its block, as in decoding; the blocks are a batch."""
        count, length = len(anchors), context.shape[-2]
        tokens = roots.new_full((count, self.block), variant.mask_id)
        if not variant.masked_root:
            tokens[:, 0] = roots
        before = torch.arange(length, device=self.device).expand(count, -1)
        positions = anchors[:, None] + torch.arange(self.block, device=self.device)
        cosines, sines = (part.view(count, 1, self.block, -1) for part in variant.rotation(positions.flatten()))
        keys = torch.cat([before, positions], -1)
        visible = torch.cat([before < anchors[:, None], torch.ones_like(tokens, dtype=torch.bool)], -1)
        hidden = self.model(
            self.embedded(tokens), (cosines, sines), context.expand(-1, -1, count, -1, -1, -1),
            visible[:, None, None].expand(-1, 1, self.block, -1), (positions[:, None], keys[:, None]))
        proposing: Tensor = hidden[:, variant.first_slot:variant.first_slot + self.model.depth]
        return proposing
