"""Drafters in GGUF files, as llama.cpp's converter lays them out: ``dflash`` (DFlash, DFlash 2, DSpark) and ``eagle3``.

They are written into a folder as their authors publish them, which is then read like any other. llama.cpp taps a
layer's input, so its layer ids are ours plus one; its ``d2t`` holds the target's ids; EAGLE-3's queries and keys are
stored for interleaved RoPE.

Sources: llama.cpp's ``src/models/dflash.cpp``, ``src/models/eagle3.cpp`` and ``conversion/llama.py``, and vllm.cpp's
loader.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig, PreTrainedConfig, Qwen3Config

from engine.checkpoints.gguf_header import GgufHeader
from engine.checkpoints.gguf_keys import follow_metadata
from engine.errors import RigError

Keys = Mapping[str, Any]  # the file's fields by name, without its architecture's
MODEL_FIELDS: Mapping[str, str] = MappingProxyType({
    "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size", "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim", "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "context_length": "max_position_embeddings", "vocab_size": "vocab_size"})
LAYER_TENSORS: Mapping[str, str] = MappingProxyType({
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm_2": "hidden_norm",
    "attn_conv_base": "attention_conv.base_kernel", "attn_conv_proj": "attention_conv.kernel_projection",
    "ffn_conv_base": "mlp_conv.base_kernel", "ffn_conv_proj": "mlp_conv.kernel_projection"})
OTHER_TENSORS: Mapping[str, str] = MappingProxyType({
    "fc": "fc", "enc.output_norm": "hidden_norm", "output_norm": "norm", "output": "lm_head", "d2t": "d2t",
    "token_embd": "embed_tokens", "markov_w1": "markov_head.markov_w1", "markov_w2": "markov_head.markov_w2",
    "conf_proj": "confidence_head.proj", "selector_hidden": "candidate_selector.hidden_projection",
    "selector_predecessor": "candidate_selector.predecessor_codebook",
    "selector_successor": "candidate_selector.successor_codebook"})
WITHOUT_SUFFIX = ("base_kernel", "codebook", "d2t")  # published names without .weight
DFLASH_OPTIONS: Mapping[str, str] = MappingProxyType({
    **{name: name for name in ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k", "block_size",
                               "final_logit_softcapping", "sample_from_anchor")},
    "logit_scale": "output_multiplier", "embedding_scale": "input_embedding_scale"})


class Layout(NamedTuple):
    """One architecture: its model's config, the prefix of its layers' tensors, the keys that only drafters have, and a
    function that gives the fields of config.json for those."""

    model: type[PreTrainedConfig]
    layers: str
    drafter_keys: frozenset[str]
    fields: Callable[[Keys, Mapping[str, Tensor]], dict[str, Any]]


def dflash_fields(keys: Keys, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the fields of z-lab's or DeepSpec's config.json beyond the model's."""
    options = {name: keys[key] for key, name in DFLASH_OPTIONS.items() if key in keys}
    options |= {"target_layer_ids": [layer - 1 for layer in keys.get("target_layers", ())],
                "mask_token_id": keys.get("tokenizer.ggml.mask_token_id")}
    architecture = "DFlashDraftModel"
    if (markov := tensors.get("markov_head.markov_w1.weight")) is not None:
        architecture = "Qwen3DSparkModel"
        options |= {"markov_rank": markov.shape[1], "markov_head_type": "vanilla"}
    elif "candidate_selector.hidden_projection.weight" in tensors:
        architecture = "DFlash2DraftModel"
    causal = {"is_causal": keys["attention.causal"]} if "attention.causal" in keys else {}
    return {"architectures": [architecture], "dflash_config": options,
            "use_sliding_window": bool(keys.get("attention.sliding_window")), **causal}


def eagle3_fields(keys: Keys, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the fields of EAGLE-3's config.json beyond the model's."""
    taps = keys.get("target_layers") or keys.get("extract_layers", ())
    return {"architectures": ["LlamaForCausalLMEagle3"], "rope_is_neox_style": False,
            "norm_before_residual": keys.get("norm_before_residual", False),
            "target_hidden_size": keys.get("target_hidden_size"),
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [layer - 1 for layer in taps]}}


LAYOUTS: Mapping[str, Layout] = MappingProxyType({
    "dflash": Layout(Qwen3Config, "layers.", frozenset(
        {*DFLASH_OPTIONS, "target_layers", "attention.causal", "has_confidence_head", "draft_vocab_size"}),
        dflash_fields),
    "eagle3": Layout(LlamaConfig, "midlayer", frozenset(
        {"target_layers", "extract_layers", "target_hidden_size", "norm_before_residual", "draft_vocab_size"}),
        eagle3_fields)})


def write_drafter(file: Path, folder: Path, header: GgufHeader, dtype: torch.dtype) -> None:
    """Write a drafter's config.json and tensors; RigError names keys and tensors that it cannot convert."""
    layout, prefix = LAYOUTS[header.architecture], f"{header.architecture}."
    keys = {name.removeprefix(prefix): value for name, value in header.fields.items()}
    reader = GGUFReader(file)
    tensors: dict[str, Tensor] = {}
    for stored in reader.tensors:
        name = _published_name(file, layout, stored.name)
        if name == "d2t":
            tensors[name] = torch.from_numpy(stored.data.astype(np.int64)) - torch.arange(len(stored.data))
        elif name:
            tensors[name] = torch.from_numpy(np.array(dequantize(stored.data, stored.tensor_type))).to(dtype)
    tokens = reader.fields.get("tokenizer.ggml.tokens")
    model = {field: keys[key] for key, field in MODEL_FIELDS.items() if key in keys}
    if tokens is not None:
        model.setdefault("vocab_size", len(tokens.data))
    config = layout.model(**model)
    kept = {name: value for name, value in header.fields.items()
            if name.removeprefix(prefix) not in layout.drafter_keys}
    follow_metadata(file, header._replace(fields=kept), config)
    values = {name: value for name, value in config.to_dict().items() if value is not None}
    values |= layout.fields(keys, tensors)
    if "d2t" in tensors:
        values["draft_vocab_size"] = len(tensors["d2t"])
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(values, indent=1) + "\n")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _published_name(file: Path, layout: Layout, stored: str) -> str:
    """Return a tensor's published name; "" for RoPE factors, which come from the config."""
    part, _, ending = stored.removeprefix("blk.").rpartition(".") if stored.endswith((".weight", ".bias")) else (
        stored.removeprefix("blk."), "", "")
    if part == "rope_freqs":
        return ""
    name = OTHER_TENSORS.get(part, "")
    if stored.startswith("blk."):
        number, _, part = part.partition(".")
        module = layout.layers + number if layout.layers.endswith(".") else layout.layers
        name = f"{module}.{LAYER_TENSORS[part]}" if part in LAYER_TENSORS else ""
    if not name:
        raise RigError(f"{file.name} has the tensor {stored!r:.80}, which Canopy does not "
                       "read in a drafter; take the drafter's safetensors.")
    return name if name.endswith(WITHOUT_SUFFIX) or not ending else f"{name}.{ending}"
