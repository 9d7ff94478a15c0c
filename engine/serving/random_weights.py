"""Random weights in published sizes, made in memory: ``random:qwen3-8b`` takes Qwen3-8B's time without a download.

Its texts mean nothing, and almost nothing that the drafter proposes is accepted.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, PreTrainedTokenizerFast, Qwen3Config
from transformers.initialization import no_init_weights

from engine.checkpoints.memory import LoadContext, Storage, check_memory
from engine.checkpoints.tokenizers import load_tokenizer
from engine.checkpoints.weights import move_model
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.errors import RigError
from engine.models.target import TorchTarget
from engine.requests.rig_names import EMBEDDED_RIG, RANDOM_PREFIX, RIGS_FOLDER
from engine.texts.tokenizer import ChatTokenizer, LocalTokenizer

MEANINGLESS = ("The weights are random: the text means nothing, hardly a drafted token is accepted (τ is about 1), and "
               "only times mean something.")
SEED = 0
SPREAD = 0.02  # standard deviation of the weights, that of published initialisations
SHARPNESS = 10.0  # of the drafter's logits: its trees are then about as deep as a trained drafter's
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Shape:
    """A target's config, and its DFlash drafter's layers (of the target's size), block, taps and further options."""

    kind: type[PreTrainedConfig]
    target: Mapping[str, Any]
    layers: int
    block: int
    taps: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


DSPARK = {"markov_rank": 256, "markov_head_type": "vanilla", "sample_from_anchor": True}
QWEN3 = {"head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 36,
         "vocab_size": 151936, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
         "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
SHAPES: Mapping[str, Shape] = MappingProxyType({
    "tiny": Shape(Qwen3Config, {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 2048, "max_position_embeddings": 1024,
        "tie_word_embeddings": False}, 2, 6, (0, 1)),
    "qwen3-0.6b": Shape(Qwen3Config, {
        **QWEN3, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
        "tie_word_embeddings": True}, 4, 8, (1, 9, 17, 25), DSPARK),
    "qwen3-1.7b": Shape(Qwen3Config, {
        **QWEN3, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
        "tie_word_embeddings": True}, 4, 8, (1, 9, 17, 25), DSPARK),
    "qwen3-4b": Shape(Qwen3Config, {**QWEN3, "hidden_size": 2560, "intermediate_size": 9728,
                                    "tie_word_embeddings": True}, 5, 16, (1, 9, 17, 25, 33)),
    "qwen3-8b": Shape(Qwen3Config, {**QWEN3, "hidden_size": 4096, "intermediate_size": 12288,
                                    "tie_word_embeddings": False}, 5, 16, (1, 9, 17, 25, 33)),
    "llama3.1-8b": Shape(LlamaConfig, {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_parameters": LLAMA3_ROPE}, 5, 10,
        (1, 8, 15, 22, 29)),
})


def shape_named(rig: str) -> Shape:
    """Return the shape of the rig ``random:SHAPE``; RigError for an unknown name."""
    shape = rig.removeprefix(RANDOM_PREFIX)
    if shape not in SHAPES:
        raise RigError(f"There is no shape {shape[:200]!r} for random weights; choose one of "
                       f"{', '.join(RANDOM_PREFIX + name for name in SHAPES)}.")
    return SHAPES[shape]


def random_models(shape: Shape, storage: Storage, device: torch.device, context: LoadContext
                  ) -> tuple[TorchTarget, DFlashDrafter]:
    """Make target and drafter deterministically. RigError, before anything is made, if memory is too small."""
    config, drafter_config = shape.kind(**shape.target, attn_implementation="sdpa"), _drafter_config(shape)
    with torch.device("meta"):
        modules = (AutoModelForCausalLM.from_config(config), DFlashModel(drafter_config))
    count = sum(value.numel() for module in modules for value in module.parameters())
    check_memory(count, config, storage, device, context)
    context.report("Making random weights …", None)
    with torch.device(device), torch.random.fork_rng(), no_init_weights():
        torch.manual_seed(SEED)
        drafter = _filled(move_model(DFlashModel(drafter_config), device, storage.weights))
        drafter.norm.weight.data.fill_(SHARPNESS / (SPREAD * math.sqrt(config.hidden_size)))
        model = _filled(AutoModelForCausalLM.from_config(config, dtype=storage.weights))
    model.tie_weights()
    model.generation_config.eos_token_id = None  # no token ends a text
    target = TorchTarget(model, shape.taps)
    return target, DFlashDrafter(drafter, target.embedding, target.logits)


def _drafter_config(shape: Shape) -> Qwen3Config:
    """Return the config of a published DFlash drafter; its mask token is the vocabulary's last."""
    config = Qwen3Config(**{**shape.target, "num_hidden_layers": shape.layers})
    config.block_size = shape.block
    config.max_position_embeddings += shape.block
    config.dflash_config = {"mask_token_id": config.vocab_size - 1, "target_layer_ids": list(shape.taps),
                            **shape.options}
    return config


def _filled(model: Module) -> Module:
    """Fill the matrices with random numbers; norms stay ones."""
    for value in model.parameters():
        if value.ndim > 1:
            value.data.normal_(0, SPREAD)
    return model


def random_tokenizer(vocabulary: int) -> ChatTokenizer:
    """Return the demo rig's tokenizer, extended to ``vocabulary``; further ids read as ``<1536>``."""
    tokenizer = load_tokenizer(RIGS_FOLDER / EMBEDDED_RIG / "target")
    fast = json.loads(tokenizer.backend_tokenizer.to_str())
    fast["model"]["vocab"] |= {f"<{token}>": token for token in range(len(tokenizer), vocabulary)}
    return LocalTokenizer(PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(fast)), chat_template=tokenizer.chat_template))
