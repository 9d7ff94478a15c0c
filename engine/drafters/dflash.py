"""A block-diffusion head as a drafter: one pass gives the marginals of a whole block."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from engine.drafters.dflash_model import DFlashModel
from engine.records import Integers, Lattice
from engine.runtime.layers import Layer, Rotations, normed, turned


class DFlashDrafter:
    """The head beside its context keys and values, which hold features of committed tokens only."""

    def __init__(self, model: DFlashModel, embedding: nn.Module, head: nn.Module) -> None:
        self.model = model.eval()
        self.embedding, self.head = embedding, head
        self.block: int = model.config.block_size
        self.mask_id: int = model.config.dflash_config["mask_token_id"]
        self.layers = [Layer(layer, model.config.head_dim) for layer in model.layers]
        self.rotations = Rotations(model.rotary_emb, model.norm.weight, model.config.max_position_embeddings)
        self._context = torch.empty(0)
        self._length = 0

    @property
    def device(self) -> torch.device:
        return self.model.fc.weight.device

    @torch.inference_mode()
    def begin(self, rows: int) -> None:
        """See ``decode.Drafter``: room for ``rows`` committed positions and one block behind them."""
        config = self.model.config
        self._length = 0
        self._context = self.model.fc.weight.new_empty(
            config.num_hidden_layers, 2, config.num_key_value_heads, rows + self.block, config.head_dim)

    @torch.inference_mode()
    def observe(self, token_ids: Integers, features: Tensor) -> None:
        """See ``decode.Drafter``. features (tokens, taps × hidden size): each layer gets keys and values of them."""
        end = self._length + len(token_ids)
        fused = normed(linear(features, self.model.fc.weight), self.model.hidden_norm)
        states = torch.stack([layer.keys_values(fused) for layer in self.layers])
        heads = states.shape[2] // 2
        keys = turned(states[:, :, :heads], self.rotations.span(self._length, end))
        self._context[:, 0, :, self._length:end] = keys.transpose(1, 2)
        self._context[:, 1, :, self._length:end] = states[:, :, heads:].transpose(1, 2)
        self._length = end

    @torch.inference_mode()
    def draft(self, root: int, width: int) -> Lattice:
        """See ``decode.Drafter``: a lattice of block − 1 depths and one row each (paper 002, section 3)."""
        end = self._length + self.block
        tokens = torch.full((self.block,), self.mask_id, device=self.device)
        tokens[0] = root
        hidden, rotation = self.embedding(tokens), self.rotations.span(self._length, end)
        for layer, room in zip(self.layers, self._context[:, :, :, :end], strict=True):
            hidden = layer.run(hidden, rotation, room, None)
        return marginals(self.head(normed(hidden[1:], self.model.norm)).float(), width)

    def release(self) -> None:
        """See ``decode.Drafter``."""
        self._context = torch.empty(0)
        self._length = 0


def marginals(logits: Tensor, width: int) -> Lattice:
    """Logits (depth, vocabulary) float32 as a lattice of the ``width`` likeliest tokens, normalised before the cut."""
    top = logits.topk(min(width, logits.shape[-1]), -1)
    logprobs = (top.values - logits.logsumexp(-1, keepdim=True)).clamp_(max=0.0)
    tokens = top.indices.int().cpu().numpy()[:, None]
    return Lattice(tokens, logprobs.cpu().numpy()[:, None], np.zeros_like(tokens))
