"""EAGLE-3 drafters: one layer over fused features of three target layers, a token at a time, with published tensor
names.

``fc`` fuses the features (``beam.FeatureDrafter``); queries, keys and values come from them and the embedded token.

If a checkpoint names layers, we read their outputs, as its trainer did. If it names none, the published code reads the
inputs of layers 2, L / 2 and L − 3: the outputs of the layers before them.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from engine.checkpoints.files import read_config
from engine.checkpoints.weights import fill_model, load_weights, move_model
from engine.drafters import fields, kinds
from engine.drafters.beam import PUBLISHED_BEAM, FeatureDrafter
from engine.drafters.dflash.model import Rotation
from engine.models.cache import LayeredCache
from engine.models.target import TorchTarget

EMBEDDING = "embed_tokens.weight"
# Fields of exports by ModelOpt and speculators; other values are refused by name.
SUPPORTED_VALUES: Mapping[str, object] = MappingProxyType({
    "use_last_layernorm": True, "use_input_layernorm_in_first_layer": True, "use_mtp_layernorm": False,
    "next_layer_regular": True, "parallel_draft_step": 1, "parallel_draft_heads_num_layers": 1, "has_lm_head": True,
    "norm_before_residual": False, "norm_before_fc": False, "use_aux_hidden_state": True})
IGNORED_FIELDS = frozenset({"eagle_config", "target_hidden_size", "target_model_type", "sliding_window",
                            "max_window_layers", "eagle_aux_hidden_state_layer_ids"})


def grouped_attention(_: nn.Module, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, *, scaling: float,
                      **__: Any) -> tuple[Tensor, None]:
    """Attend as transformers calls it. With a mask, its ``sdpa`` copies keys and values for each query group, which
    takes longer than the attention."""
    mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scaling, enable_gqa=True)
    return mixed.transpose(1, 2), None


AttentionInterface.register("canopy_grouped", grouped_attention)


class Eagle3Layer(LlamaDecoderLayer):  # type: ignore[misc]  # transformers' types are not read
    """The drafter's only layer; its attention has inputs twice as wide as its outputs."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config, 0)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        for name in ("q_proj", "k_proj", "v_proj"):
            outputs = getattr(self.self_attn, name).out_features
            setattr(self.self_attn, name, nn.Linear(2 * config.hidden_size, outputs, bias=config.attention_bias))

    def forward(self, hidden: Tensor, embedded: Tensor, rotation: Rotation, mask: Tensor,
                cache: LayeredCache) -> Tensor:
        """Run the layer on hidden states (rows, hidden) and embedded tokens, over the cached rows and themselves."""
        both = torch.cat([self.input_layernorm(embedded), self.hidden_norm(hidden)], -1)
        hidden = hidden + self.self_attn(both[None], rotation, mask, cache)[0][0]
        states: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return states


class Eagle3Model(nn.Module):
    """The trained module: ``fc`` fuses the taps, ``midlayer`` drafts, ``lm_head`` gives logits of the draft
    vocabulary."""

    token_ids: Tensor | None

    def __init__(self, config: LlamaConfig, token_ids: Tensor | None) -> None:
        super().__init__()
        self.config = config
        hidden, draft = config.hidden_size, config.draft_vocab_size
        self.fc = nn.Linear(config.taps * config.target_hidden_size, hidden, bias=False)
        self.midlayer = Eagle3Layer(config)
        self.norm = LlamaRMSNorm(hidden, eps=config.rms_norm_eps)
        self.lm_head = nn.Linear(hidden, draft, bias=False)
        self.register_buffer("token_ids", token_ids, persistent=False)
        self.rotary_emb = LlamaRotaryEmbedding(config)


class Eagle3Drafter(FeatureDrafter):
    """The drafter with the keys and values of its rows."""

    def __init__(self, model: Eagle3Model, embedding: nn.Module, columns: Tensor | slice) -> None:
        self.model = model.eval()
        super().__init__(embedding, model.fc.weight, PUBLISHED_BEAM, columns)

    def _fuse(self, features: Tensor) -> Tensor:
        states: Tensor = self.model.fc(features)
        return states

    def _run_layer(self, states: Tensor, embedded: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        rotation = self.model.rotary_emb(self._weight, positions[None])
        states = self.model.midlayer(states, embedded, rotation, mask, self._cache)
        return states

    def _predict(self, states: Tensor) -> Tensor:
        logits: Tensor = self.model.lm_head(self.model.norm(states)).float()
        token_ids = self.model.token_ids
        return logits if token_ids is None else fields.over_vocabulary(logits, token_ids, self.model.config.vocab_size)


def recognises(values: Mapping[str, Any]) -> bool:
    """Return whether a config.json says that it is an EAGLE-3 drafter, or has a draft vocabulary."""
    return "eagle3" in kinds.architectures(values) or "draft_vocab_size" in values


def plan(folder: Path, target: kinds.TargetFacts) -> kinds.DrafterPlan:
    """Plan an EAGLE-3 drafter; RigError if it cannot run on this target as it was trained."""
    values = read_config(folder)
    inside, layers = values.get("eagle_config") or {}, int(target.config.num_hidden_layers)
    unread = {name: value for name, value in fields.unread_fields(values | inside, LlamaConfig, IGNORED_FIELDS).items()
                if SUPPORTED_VALUES.get(name) is not value}
    config = LlamaConfig(attn_implementation="canopy_grouped", **{
        key: value for key, value in values.items() if key not in ("auto_map", "eagle_config", "attn_implementation")})
    kinds.refuse_unknown(folder, {"num_hidden_layers": config.num_hidden_layers != 1 and config.num_hidden_layers,
                                  **kinds.unsupported_rope_fields(config)})
    taps = tuple(inside.get("eagle_aux_hidden_state_layer_ids") or (1, layers // 2 - 1, layers - 4))
    config.taps, config.uses_interleaved_rope = len(taps), fields.uses_interleaved_rope(unread)
    config.draft_vocab_size = values.get("draft_vocab_size") or config.vocab_size
    config.target_hidden_size = values.get("target_hidden_size") or config.hidden_size
    config.head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
    kinds.check_equal(folder, "a target of hidden size", config.target_hidden_size, target.config.hidden_size)
    kinds.check_equal(folder, "a vocabulary of", config.vocab_size, target.config.vocab_size)
    kinds.check_taps(folder, taps, target.config)
    return kinds.DrafterPlan(taps, partial(_load, folder, config, taps), note=fields.ignored_note(folder, unread))


def _load(folder: Path, config: LlamaConfig, taps: Sequence[int], target: TorchTarget) -> Eagle3Drafter:
    weights = load_weights(folder)
    embedded = weights.pop(EMBEDDING, None)
    model = Eagle3Model(config, fields.draft_token_ids(folder, weights, config.draft_vocab_size, config.vocab_size))
    if config.uses_interleaved_rope:
        weights = fields.interleaved_to_neox(weights, config.head_dim)
    fill_model(model, weights, folder)
    model = move_model(model, target.device, target.model.dtype)
    embedding = target.embedding if embedded is None else nn.Embedding.from_pretrained(
        embedded.to(device=target.device, dtype=target.model.dtype))
    kinds.check_equal(folder, "token embeddings of size", config.hidden_size, embedding.weight.shape[1])
    return Eagle3Drafter(model, embedding, kinds.tap_columns(target, taps))
