"""MTP drafters: the layer in a target's checkpoint that predicts the token after next, applied to its own output for
more.

A row joins the normed embedding of a token and the normed state of the position before it, ``eh_proj``([e, h]), and
runs through one decoder layer of the target's kind and a last norm. The state is the target's, after its final norm; at
positions that the target has not read, it is the output of the row before. Embedding and output head are the target's.
Row i lies at position i, as in vLLM and SGLang.

Sources: ``*_nextn.py`` and ``*_mtp.py`` of SGLang 0.5.23 and vLLM, and transformers' ``MtpModel``, whose layer is used.
They agree on Qwen. vLLM's DeepSeek zeroes the embedding at position 0 and passes a state on before the last norm;
SGLang, transformers and this file do neither.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_layers import MtpLayer

from engine.checkpoints.files import display_name, read_config
from engine.checkpoints.weights import fill_model, load_weights, move_model
from engine.drafters.beam import PUBLISHED_BEAM, FeatureDrafter
from engine.drafters.kinds import (
    DrafterPlan,
    TargetFacts,
    check_equal,
    refuse_unknown,
    tap_columns,
    unsupported_rope_fields,
)
from engine.errors import RigError
from engine.models.target import TorchTarget

FAMILIES = frozenset({"deepseek_v3", "glm4_moe", "glm4_moe_lite", "qwen3_next", "qwen3_5", "qwen3_5_moe"})
LAYER_COUNTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")  # fields of config.json
# Names of the parts outside the decoder layer, in Qwen's layout and in DeepSeek's.
PARTS: Mapping[str, str] = MappingProxyType({
    "fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "post_norm",
    "eh_proj": "eh_proj", "enorm": "enorm", "hnorm": "hnorm", "shared_head.norm": "post_norm"})
SHARED_WITH_TARGET = frozenset({"embed_tokens", "shared_head.head"})  # stored once more
EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")
# Config values of a model with one decoder layer of the target's kind, with experts if the kind has them.
ONE_LAYER_CONFIG: Mapping[str, object] = MappingProxyType({
    "num_hidden_layers": 1, "layer_types": ["full_attention"], "mlp_layer_types": ["sparse"],
    "first_k_dense_replace": 0, "mlp_only_layers": [], "decoder_sparse_step": 1})


class MtpDrafter(FeatureDrafter):
    """The layer with the keys and values of its rows; its feature is the output of the target's last layer."""

    def __init__(self, layer: MtpLayer, target: TorchTarget, columns: Tensor | slice) -> None:
        self.layer, self.head = layer.eval(), target.logits
        decoder = target.model.get_decoder()
        self.norm, self.rotary = decoder.norm, decoder.rotary_emb
        super().__init__(target.embedding, layer.eh_proj.weight, PUBLISHED_BEAM, columns)

    def _fuse(self, features: Tensor) -> Tensor:
        states: Tensor = self.norm(features)
        return states

    def _run_layer(self, states: Tensor, embedded: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        # transformers before 5.24 expects of Qwen3.5 a text's positions three times, as of a picture's time and place
        turned = positions.expand(3, 1, -1) if hasattr(self.rotary, "mrope_section") else positions[None]
        output: Tensor = self.layer(
            embedded[None], states[None], self.rotary(embedded[None], turned), mask, positions[None], self._cache)
        return output[0]

    def _predict(self, states: Tensor) -> Tensor:
        return self.head(states).float()


def recognises(values: Mapping[str, Any]) -> bool:
    """Return whether a config.json is that of a family whose checkpoints carry such a layer."""
    return str(values.get("model_type")).removesuffix("_text") in FAMILIES


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """Plan the layer in a folder, commonly the target's; RigError if it cannot run on this target."""
    values = read_config(folder)
    text = values.get("text_config") or values
    check_equal(folder, "a layer of", text.get("model_type"), target.config.model_type)
    for name in ("hidden_size", "vocab_size", "num_hidden_layers"):
        check_equal(folder, name, text.get(name), getattr(target.config, name))
    refuse_unknown(folder, {
        **{name: "" if text.get(name) in (None, 1) else f"{text[name]} layers" for name in LAYER_COUNTS},
        "mtp_use_dedicated_embeddings": text.get("mtp_use_dedicated_embeddings"),
        **unsupported_rope_fields(target.config)})
    return DrafterPlan((int(target.config.num_hidden_layers) - 1,), partial(_load, folder))


def _load(folder: Path, target: TorchTarget) -> MtpDrafter:
    layers = int(target.config.num_hidden_layers)
    prefix = rf"mtp\.|model\.(language_model\.)?layers\.{layers}\."
    stored = load_weights(folder, prefix)
    if not stored:
        raise RigError(f"The weights in {display_name(folder)} hold no layer for multi-token prediction: no tensor's "
                       f"name begins with mtp. or model.layers.{layers}.; name another drafter.")
    example, config = target.model.get_decoder().layers[-1], deepcopy(target.config)
    for name, value in ONE_LAYER_CONFIG.items():
        if hasattr(config, name):
            setattr(config, name, value)
    layer = MtpLayer(config, type(example), type(example.post_attention_layernorm), 0)
    weights = _rename_tensors({re.sub(f"^({prefix})", "", name): value for name, value in stored.items()})
    fill_model(layer, weights, folder)
    return MtpDrafter(move_model(layer, target.device, target.model.dtype), target, tap_columns(target, [layers - 1]))


def _rename_tensors(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the tensors as in transformers' layer, and join experts."""
    weights: dict[str, Tensor] = {}
    for name, value in stored.items():
        part = name.removesuffix(".weight")
        if part in PARTS:
            weights[f"{PARTS[part]}.weight"] = value
        elif part not in SHARED_WITH_TARGET:
            weights[f"mtp_block.{name.removeprefix('layers.0.')}"] = value
    experts = {match.groups(): weights.pop(name) for name in list(weights) if (match := EXPERT.fullmatch(name))}
    for module in {module for module, _, _ in experts}:
        numbers = range(len(experts) // 3)
        gate, up, down = (torch.stack([experts[module, str(number), part] for number in numbers])
                          for part in ("gate", "up", "down"))
        weights |= {f"{module}.gate_up_proj": torch.cat([gate, up], 1), f"{module}.down_proj": down}
    return weights
