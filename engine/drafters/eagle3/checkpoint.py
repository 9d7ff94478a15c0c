"""Published EAGLE-3 checkpoints: one layer over fused features of three of the target's layers.

Where a checkpoint names layers, their outputs are read, as the trainers that write such ids mean it. Where it names
none, the published code reads the inputs of layers 2, L / 2 and L − 3, which are the outputs of the layers before them.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn
from transformers import LlamaConfig, PreTrainedConfig

from engine.checkpoints.files import display_name, fill_model, load_weights, move_model, read_config
from engine.drafters.eagle3.drafter import Eagle3Drafter, Eagle3Model
from engine.drafters.kinds import (
    DrafterPlan,
    Kind,
    TargetFacts,
    architectures,
    must_fit,
    must_know,
    must_tap,
    unsteady_rope,
)
from engine.errors import RigError
from engine.models.target import TorchTarget

EMBEDDING = "embed_tokens.weight"
KNOWN_INSIDE = frozenset({"eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state"})
SILENT = frozenset({
    "auto_map", "draft_vocab_size", "eagle_config", "target_hidden_size", "torch_dtype", "rope_theta", "rope_scaling",
    "pretraining_tp", "tokenizer_class", "target_model_type", "sliding_window", "max_window_layers"})


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether a config.json says that it is an EAGLE-3 drafter, or has a draft vocabulary."""
    return "eagle3" in architectures(values) or "draft_vocab_size" in values


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """The plan of an EAGLE-3 drafter; RigError where it cannot run on this target as it was trained."""
    values = read_config(folder)
    config = _drafter_config(folder, values, target)
    must_fit(folder, "a target of hidden size", config.target_hidden_size, target.config.hidden_size)
    must_fit(folder, "a vocabulary of", config.vocab_size, target.config.vocab_size)
    taps = _taps(values, int(target.config.num_hidden_layers))
    must_tap(folder, taps, target.config)
    config.taps = len(taps)
    return DrafterPlan(taps, partial(_load, folder, config))


def _taps(values: dict[str, Any], layers: int) -> tuple[int, ...]:
    named = (values.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    return tuple(named) if named else (1, layers // 2 - 1, layers - 4)


def _drafter_config(folder: Path, values: dict[str, Any], target: TargetFacts) -> LlamaConfig:
    known = PreTrainedConfig().to_dict().keys() | LlamaConfig().to_dict().keys() | SILENT
    inside = values.get("eagle_config") or {}
    must_know(folder, {name: value for name, value in values.items() if name not in known} | {
        name: value for name, value in inside.items() if name not in KNOWN_INSIDE})
    config = LlamaConfig(**{key: value for key, value in values.items() if key not in ("auto_map", "eagle_config")})
    must_know(folder, {
        "num_hidden_layers": "" if config.num_hidden_layers == 1 else config.num_hidden_layers,
        "use_aux_hidden_state": "" if inside.get("use_aux_hidden_state", True) else "false", **unsteady_rope(config)})
    config.draft_vocab_size = values.get("draft_vocab_size") or config.vocab_size
    config.target_hidden_size = values.get("target_hidden_size") or config.hidden_size
    config.head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
    return config


def _load(folder: Path, config: LlamaConfig, target: TorchTarget) -> Eagle3Drafter:
    weights = load_weights(folder)
    own_weight = weights.pop(EMBEDDING, None)
    model = Eagle3Model(config)
    if config.draft_vocab_size == config.vocab_size:  # then every token has its own id, mapped or not
        weights.setdefault("d2t", model.d2t)
        weights.setdefault("t2d", ~model.t2d)
    fill_model(model, weights, folder)
    least, most = map(int, model.token_ids.aminmax())
    if least < 0 or most >= config.vocab_size:
        raise RigError(f"The vocabulary map d2t in {display_name(folder)} leads to token {most}; the target has "
                       f"{config.vocab_size} tokens.")
    model = move_model(model, target.device, target.model.dtype)
    embedding = target.embedding if own_weight is None else nn.Embedding.from_pretrained(
        own_weight.to(device=target.device, dtype=target.model.dtype))
    must_fit(folder, "token embeddings of size", config.hidden_size, embedding.weight.shape[1])
    return Eagle3Drafter(model, embedding)


eagle3 = Kind(recognises, plan)
