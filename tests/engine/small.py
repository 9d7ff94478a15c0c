"""Build a random target of three layers and drafters for it, in milliseconds and without the demo rig."""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.models.target import TorchTarget

TAPS = (0, 1)  # not the last layer: transformers reports its output after the final norm
VOCABULARY = 97
MASK_ID = 96
DFLASH2: Mapping[str, int] = MappingProxyType({
    "conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 8, "selector_top_k": 16})


def small_config(layers: int = 3) -> Qwen3Config:
    """Return a config with grouped queries, a tied embedding and a head size other than hidden / heads."""
    return Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256, tie_word_embeddings=True,
        attn_implementation="sdpa")


def small_target(seed: int = 0) -> TorchTarget:
    """Return a random target whose choices differ from position to position."""
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(small_config())
    for value in model.parameters():
        if value.ndim == 2:
            value.data.normal_(0, 0.15)
    return TorchTarget(model, TAPS)


def small_drafter_model(seed: int = 1, block: int = 6, window: int = 0, causal: bool | None = None,
                        options: Mapping[str, object] = MappingProxyType({})) -> DFlashModel:
    """Return a random drafter model of two layers; with a ``window`` its first layer has sliding attention."""
    torch.manual_seed(seed)
    config = small_config(layers=2)
    config.block_size = block
    config.dflash_config = {"mask_token_id": MASK_ID, "target_layer_ids": list(TAPS), "causal": causal,
                            **options}
    if window:
        config.layer_types, config.sliding_window = ["sliding_attention", "full_attention"], window
    model = DFlashModel(config)
    for value in model.parameters():
        if value.ndim == 2:
            value.data.normal_(0, 0.15)
    return model


def small_drafter(target: TorchTarget, seed: int = 1, block: int = 6, window: int = 0,
                  causal: bool | None = None, options: Mapping[str, object] = MappingProxyType({})) -> DFlashDrafter:
    """Return a drafter of that model for the target."""
    return DFlashDrafter(small_drafter_model(seed, block, window, causal, options), target.embedding, target.logits)
