"""Write random checkpoint folders with published configurations and tensor names, and small hidden sizes."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from engine.errors import RigError
from engine.serving.rigs import load_rig

TOKENIZER = Path("assets/demo/target")
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
SPREAD = 0.2  # standard deviation of random weights; large enough that choices differ between positions
LLAMA_ROPE = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192, "rope_type": "llama3"}
# As in Qwen3's template, the answer begins with an empty thought if thinking is off.
THINKING_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}")

QWEN = {"attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
        "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 40960, "model_type": "qwen3",
        "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None,
        "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": True, "use_sliding_window": False,
        "vocab_size": 151936}
LLAMA = {"attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 128000,
         "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "initializer_range": 0.02,
         "max_position_embeddings": 131072, "mlp_bias": False, "model_type": "llama", "pretraining_tp": 1,
         "rms_norm_eps": 1e-05, "rope_scaling": LLAMA_ROPE, "rope_theta": 500000.0, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16", "transformers_version": "4.42.3", "use_cache": True, "vocab_size": 128256}
TARGETS: Mapping[str, dict[str, Any]] = {
    "Qwen3-4B": {**QWEN, "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 36, "max_window_layers": 36,
                 "tie_word_embeddings": True},
    "Qwen3-8B": {**QWEN, "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 36, "max_window_layers": 36,
                 "tie_word_embeddings": False},
    "Qwen3-Coder-30B-A3B-Instruct": {
        **QWEN, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 48,
        "max_window_layers": 28, "max_position_embeddings": 262144, "rope_theta": 10000000, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "moe_intermediate_size": 16, "norm_topk_prob": True, "num_experts": 8,
        "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.001,
        "tie_word_embeddings": False},
    "Llama-3.1-8B-Instruct": {**LLAMA, "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32},
}


@dataclass(frozen=True)
class Published:
    """Hold a drafter's published options; ``inside`` names those that its config keeps in ``dflash_config``."""

    target: str
    taps: tuple[int, ...]
    mask_id: int
    block: int
    layers: int = 5
    inside: tuple[str, ...] = ("mask_token_id", "target_layer_ids")


DFLASH: Mapping[str, Published] = {
    "Qwen3-4B-DFlash-b16": Published("Qwen3-4B", (1, 9, 17, 25, 33), 151669, 16),
    "Qwen3-8B-DFlash-b16": Published("Qwen3-8B", (1, 9, 17, 25, 33), 151669, 16),
    "Qwen3-Coder-30B-A3B-DFlash": Published(
        "Qwen3-Coder-30B-A3B-Instruct", (1, 12, 23, 34, 45), 151669, 16, 8,
        ("mask_token_id", "target_layer_ids", "block_size")),
    "LLaMA3.1-8B-Instruct-DFlash-UltraChat": Published("Llama-3.1-8B-Instruct", (1, 8, 15, 22, 29), 128255, 10, 5, ()),
}


def refused(name: str) -> str:
    """Open a rig that must be refused; return the error's sentence."""
    with pytest.raises(RigError) as caught:
        load_rig(name, "float32", "cpu")
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith(".") and len(sentence) < 600
    return sentence


def write_config(folder: Path, values: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values, indent=2))
    return folder


def write_target(folder: Path, values: Mapping[str, Any], seed: int = 0, dtype: torch.dtype = torch.float32,
                 spread: float = SPREAD, **changes: Any) -> Path:
    """Write a random target with the demo rig's tokenizer; a change to None removes the field."""
    whole = {**values, **SIZES, **changes}
    write_config(folder, {name: value for name, value in whole.items() if value is not None or name not in changes})
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=dtype)
    for value in model.parameters():
        if value.ndim > 1:
            value.data.normal_(0, spread)
    kept = (folder / "config.json").read_text()
    model.save_pretrained(folder)
    (folder / "config.json").write_text(kept)  # as published, not as this version of transformers writes it
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, folder)
    (folder / "chat_template.jinja").write_text(THINKING_TEMPLATE)
    return folder


def dflash_config(published: Published, **changes: Any) -> dict[str, Any]:
    """Return the config.json of a block-diffusion drafter."""
    target = TARGETS[published.target]
    options = {"mask_token_id": published.mask_id, "target_layer_ids": list(published.taps),
               "block_size": published.block}
    inner = {name: value for name, value in options.items() if name in published.inside}
    outer = {name: value for name, value in options.items() if name not in published.inside}
    model = {name: target[name] for name in (
        "attention_bias", "attention_dropout", "bos_token_id", "eos_token_id", "hidden_act", "initializer_range",
        "max_position_embeddings", "rms_norm_eps", "rope_scaling", "rope_theta", "vocab_size")}
    return {**model, **SIZES, **outer, "architectures": ["DFlashDraftModel"],
            "auto_map": {"AutoModel": "dflash.DFlashDraftModel"}, "dflash_config": inner, "dtype": "bfloat16",
            "layer_types": ["full_attention"] * published.layers, "max_window_layers": published.layers,
            "model_type": "qwen3", "num_hidden_layers": published.layers, "sliding_window": None,
            "num_target_layers": target["num_hidden_layers"], "tie_word_embeddings": False, "use_cache": True,
            "transformers_version": "4.57.1", "use_sliding_window": False, **changes}


def dflash_shapes(published: Published, sizes: Mapping[str, int] = MappingProxyType(SIZES)) -> dict[
        str, tuple[int, ...]]:
    """Return the shapes of the published tensors; there is no embedding and no output head."""
    hidden, inner, size = sizes["hidden_size"], sizes["intermediate_size"], sizes["head_dim"]
    wide, narrow = sizes["num_attention_heads"] * size, sizes["num_key_value_heads"] * size
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (hidden, len(published.taps) * hidden), "hidden_norm.weight": (hidden,), "norm.weight": (hidden,)}
    for layer in range(published.layers):
        shapes |= {f"layers.{layer}.{name}.weight": shape for name, shape in {
            "self_attn.q_proj": (wide, hidden), "self_attn.k_proj": (narrow, hidden),
            "self_attn.v_proj": (narrow, hidden), "self_attn.o_proj": (hidden, wide), "self_attn.q_norm": (size,),
            "self_attn.k_norm": (size,), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner), "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,)}.items()}
    return shapes


def write_weights(folder: Path, shapes: Mapping[str, tuple[int, ...]], seed: int = 1,
                  dtype: torch.dtype = torch.float32, spread: float = SPREAD) -> Path:
    """Write random tensors of these shapes; vectors are norms, with values around 1."""
    generator = torch.Generator().manual_seed(seed)
    weights = {name: (torch.randn(shape, generator=generator) * spread + (len(shape) == 1)).to(dtype)
               for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_dflash(folder: Path, published: Published, **changes: Any) -> Path:
    """Write a random drafter with these options."""
    return write_weights(write_config(folder, dflash_config(published, **changes)), dflash_shapes(published))


# The same architectures with the demo tokenizer's vocabulary and few layers, for tests that decode whole texts.
SHORT = {"vocab_size": 1536, "num_hidden_layers": 6, "eos_token_id": 2, "bos_token_id": None,
         "max_position_embeddings": 256}
SHORT_DRAFTER = {"vocab_size": 1536, "num_target_layers": 6, "eos_token_id": 2, "bos_token_id": None}


def write_short(folder: Path, target: str, **changes: Any) -> Path:
    """Write a target of a published architecture with few layers."""
    return write_target(folder, TARGETS[target], **{**SHORT, **changes})


def write_short_dflash(folder: Path, target: str, **changes: Any) -> Path:
    """Write a drafter for the target of ``write_short``."""
    return write_dflash(folder, Published(target, (1, 3), 3, 8, 2), **{**SHORT_DRAFTER, **changes})
