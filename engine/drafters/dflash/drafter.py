"""A block-diffusion drafter: one pass gives the marginals of a whole block."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor, nn

from engine.drafters.dflash.marginals import marginals
from engine.drafters.dflash.model import DFlashModel
from engine.drafters.dflash.positions import proposals
from engine.drafters.known_text import ReadText
from engine.lab.replay import Proposals
from engine.models.inference import in_inference_mode
from engine.models.layers import KeysValues, Layer, Rotations, View, norm_of, turned
from engine.models.products import Product, VocabularyProduct, side_by_side
from engine.records import Integers, Lattice


class DFlashDrafter:
    """The drafter with its KV cache, whose keys and values come from features of committed tokens only."""

    def __init__(self, model: DFlashModel, embedding: nn.Module, head: VocabularyProduct) -> None:
        self.model = model.eval()
        self.embedding, self.head = embedding, head
        self.block: int = model.config.block_size
        self.mask_id: int = model.config.dflash_config["mask_token_id"]
        self.layers = [Layer(layer, model.config.head_dim) for layer in model.layers]
        self.norm, self._fused_norm = norm_of(model.norm), norm_of(model.hidden_norm)
        self._fuse, self._keys_values = Product(side_by_side([model.fc])), KeysValues(self.layers)
        self._block = torch.full((self.block,), self.mask_id, device=self.device)
        self.rotations = Rotations(model.rotary_emb, model.norm.weight, model.config.max_position_embeddings)
        self._sliding = sorted(set(model.windows) - {0})
        self._groups = model.config.num_attention_heads // model.config.num_key_value_heads
        self._context = torch.empty(0)
        self._length = 0

    @property
    def device(self) -> torch.device:
        """The device that the drafter runs on."""
        return self.model.fc.weight.device

    @in_inference_mode
    def begin(self, rows: int) -> None:
        """See ``plan.Drafter``: room for ``rows`` committed positions and one block after them."""
        config = self.model.config
        self._length = 0
        self._context = self.model.fc.weight.new_empty(
            config.num_hidden_layers, 2, config.num_key_value_heads, rows + self.block, config.head_dim)

    @in_inference_mode
    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``plan.Drafter``. features (tokens, taps × hidden size) become keys and values of each layer."""
        end = self._length + len(token_ids)
        keys, values = self.context_of(features)
        keys = turned(keys, self.rotations.span(self._length, end))
        self._context[:, 0, :, self._length:end] = keys.transpose(1, 2)
        self._context[:, 1, :, self._length:end] = values.transpose(1, 2)
        self._length = end

    def context_of(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Keys before rotary embedding, and values, that features (rows, taps × hidden size) add to every layer: each
        (layers, rows, kv heads, head size)."""
        return self._keys_values.of(self._fused_norm(self._fuse(features)))

    @in_inference_mode
    def draft(self, root: int, width: int) -> Lattice:
        """See ``plan.Drafter``: a lattice of block − 1 depths and one row each (paper 002, section 3)."""
        end = self._length + self.block
        hidden, rotation = self.embedding(self._rooted(root)), self.rotations.span(self._length, end)
        masks = self._masks(end)
        for layer, window, room in zip(self.layers, self.model.windows, self._context[:, :, :, :end], strict=True):
            hidden = layer.run(hidden, rotation, room, masks[window])
        return marginals(self.head(self.norm(hidden[1:])), width)

    @property
    def weights(self) -> object:
        """See ``plan.JointDrafter``."""
        return self.model

    @in_inference_mode
    def draft_together(self, forks: Sequence[DFlashDrafter], roots: Sequence[int], widths: Sequence[int]
                       ) -> list[Lattice]:
        """See ``plan.JointDrafter``: one block after another, each over its own context."""
        ends = [fork._length + self.block for fork in forks]
        hidden = self.embedding(torch.cat([fork._rooted(root) for fork, root in zip(forks, roots, strict=True)]))
        spans = [self.rotations.span(end - self.block, end) for end in ends]
        rotation = torch.cat([cosines for cosines, _ in spans]), torch.cat([sines for _, sines in spans])
        masks = [self._masks(end) for end in ends]
        for number, (layer, window) in enumerate(zip(self.layers, self.model.windows, strict=True)):
            hidden = layer.run_together(hidden, rotation, [
                View(self.block, fork._context[number, :, :, :end], mask[window])
                for fork, end, mask in zip(forks, ends, masks, strict=True)])
        proposed = hidden.unflatten(0, (len(forks), self.block))[:, 1:].flatten(0, 1)
        logits = self.head(self.norm(proposed)).split(self.block - 1)
        return [marginals(own, width) for own, width in zip(logits, widths, strict=True)]

    def _rooted(self, root: int) -> Tensor:
        """The block's tokens, (block,) int64: the root, then mask tokens."""
        self._block[0] = root
        return self._block

    def fork(self) -> DFlashDrafter:
        """See ``plan.Drafter``."""
        other = copy(self)
        other._block = self._block.clone()
        other.release()
        return other

    def proposals(self, text: ReadText, width: int) -> Proposals:
        """See ``abilities.ReplayDrafter``."""
        return proposals(self, text, width)

    def _masks(self, end: int) -> dict[int, Tensor | None]:
        """The mask of a block that ends at ``end``, for each attention window among the layers; see ``Layer.run``."""
        found: dict[int, Tensor | None] = {0: None}
        for window in self._sliding:
            places = torch.arange(end, device=self.device)
            far = ~self.model.near(window, places[-self.block:], places)
            mask = self.model.fc.weight.new_zeros(self.block, end).masked_fill_(far, -torch.inf)
            found[window] = mask.repeat(self._groups, 1)[None, None]
        return found

    def release(self) -> None:
        """See ``plan.Drafter``."""
        self._context = torch.empty(0)
        self._length = 0
