"""Completes the config that transformers makes from a GGUF file's metadata.

transformers drops some keys, including every kind of RoPE scaling. Here each key of the file's architecture is applied,
known to have no effect, or refused by name, and no tensor is left out unnoticed.
"""

from collections.abc import Mapping
from math import ceil, floor, log, pi
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.integrations.gguf.gguf_conversion_mapping import GGUF_ARCHS
from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor, get_gguf_hf_weights_map

from engine.checkpoints.gguf_header import GgufHeader
from engine.errors import RigError

# For keys that transformers' table lacks: the first of these fields that the config has takes the value.
CONFIG_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "attention.sliding_window": ("sliding_window",),
    "attention.layer_norm_epsilon": ("layer_norm_epsilon", "layer_norm_eps", "norm_eps", "norm_epsilon"),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps", "norm_eps"),
    "attention.shared_kv_layers": ("num_kv_shared_layers",),
    "attention.key_length_swa": ("head_dim",),
    "embedding_length_per_layer_input": ("hidden_size_per_layer_input",),
    "expert_feed_forward_length": ("moe_intermediate_size", "intermediate_size"),
    "expert_shared_feed_forward_length": ("shared_expert_intermediate_size",),
    "expert_weights_norm": ("norm_topk_prob",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",),
    "use_parallel_residual": ("use_parallel_residual",)})
# Values with which a key has no effect.
NEUTRAL_VALUES: Mapping[str, tuple[object, ...]] = MappingProxyType({
    "attention.causal": (True,), "attention.clamp_kqv": (0,), "attention.max_alibi_bias": (0,),
    "attn_logit_softcapping": (0,), "final_logit_softcapping": (0,), "logit_scale": (0, 1), "residual_scale": (0, 1),
    "embedding_scale": (0, 1), "expert_count": (0,), "expert_used_count": (0,), "expert_shared_count": (0,),
    "expert_weights_scale": (0, 1), "nextn_predict_layers": (0,), "leading_dense_block_count": (0,),
    "attention.shared_kv_layers": (0,), "attention.sliding_window": (0,),
    "rope.scaling.yarn_ext_factor": (1, -1), "rope.scaling.yarn_attn_factor": (1,),
    "rope.scaling.yarn_log_multiplier": (0,)})
# Keys without effect: redundant with the tensors' shapes, or unrelated to text.
IGNORED_KEYS = frozenset({
    "context_length", "vocab_size", "block_count", "embedding_length", "feed_forward_length", "tensor_data_layout",
    "rope.scaling.finetuned", "rope.dimension_sections"})  # all sections of a text's positions are equal
# Keys that transformers reads for architectures that its table lacks.
FURTHER_KEYS: Mapping[str, frozenset[str]] = MappingProxyType(dict.fromkeys(("qwen35", "qwen35moe", "lfm2"), frozenset({
    "attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "expert_count",
    "expert_used_count", "full_attention_interval", "nextn_predict_layers", "ssm.conv_kernel", "ssm.group_count",
    "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "shortconv.l_cache"})))
MAX_HEAD_SIZE = 2**14  # the largest have 512
FACTORS, LONG_FACTORS, SHORT_FACTORS = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
UNUSED_TENSORS = ("output.weight", FACTORS, LONG_FACTORS, SHORT_FACTORS)  # read elsewhere


class Rotary(NamedTuple):
    """A file's RoPE: each pair's angle per position, and the factor of cosines and sines."""

    frequencies: NDArray[np.float64]
    scale: float


def follow_metadata(file: Path, header: GgufHeader, config: PreTrainedConfig) -> Rotary | None:
    """Put the keys that transformers dropped into the config, and return the RoPE of its full attention, if any.
    RigError names unsupported keys; a value of a wrong type raises any error."""
    prefix = f"{header.architecture}."
    keys = {name.removeprefix(prefix): value for name, value in header.fields.items() if name.startswith(prefix)}
    _follow_heads(keys, config)
    _follow_layers(keys, config)
    rotary = _follow_rotary(file, header, keys, config) if getattr(config, "rope_parameters", None) else None
    read = GGUF_CONFIG_MAPPING.get(header.architecture) or GGUF_CONFIG_MAPPING.get(config.model_type) or {}
    followed = {name for name, field in read.items() if field} - {"rope.freq_base", "rope.dimension_count"}
    followed |= FURTHER_KEYS.get(header.architecture, frozenset()) | IGNORED_KEYS
    for name in CONFIG_FIELDS.keys() & keys.keys() - followed:
        if field := next((field for field in CONFIG_FIELDS[name] if hasattr(config, field)), None):
            setattr(config, field, keys.pop(name))
    unknown = {name: value for name, value in keys.items()
               if name not in followed and value not in NEUTRAL_VALUES.get(name, ())}
    if unknown:
        names = ", ".join(f"{prefix}{name} = {value!s:.60}" for name, value in sorted(unknown.items()))
        raise RigError(f"{file.name} has {names}, which Canopy does not support in a {config.model_type}; use a file "
                       "without it, or the model's safetensors.")
    return rotary


def check_converted(file: Path, header: GgufHeader, model: PreTrainedModel, report: Mapping[str, Any],
                    rotary: Rotary | None) -> None:
    """Raise RigError if a converted model has another RoPE than the file, or if a tensor has no counterpart."""
    if missing := sorted(report["missing_keys"]):
        raise RigError(f"{file.name} has no tensor for {missing[0]} (and {len(missing) - 1} more), which a "
                       f"{model.config.model_type} needs; fetch it again, or take another file.")
    if header.architecture in GGUF_ARCHS:
        unread = sorted(name for name in report["unexpected_keys"] if not name.startswith("mtp."))  # of further tokens
    else:
        processor = TENSOR_PROCESSORS.get(header.architecture, TensorProcessor)(config=model.config.to_dict())
        places = get_gguf_hf_weights_map(model, processor)
        unread = sorted(name for name in header.tensors if name not in places and name not in UNUSED_TENSORS
                        and name.rsplit(".", 1)[0] not in places and "rot_embd" not in name)
    if unread:
        raise RigError(f"{file.name} has the tensor {unread[0]} (and {len(unread) - 1} more), which no "
                       f"{model.config.model_type} has, so its text would change; take the model's safetensors.")
    module = getattr(model.get_decoder(), "rotary_emb", None)
    layered = "full_attention_" if hasattr(module, "full_attention_inv_freq") else ""
    frequencies, scale = (getattr(module, f"{layered}{name}", None) for name in ("inv_freq", "attention_scaling"))
    if rotary and frequencies is not None and not (
            frequencies.shape == rotary.frequencies.shape
            and np.allclose(frequencies.double().numpy(), rotary.frequencies, rtol=1e-4, atol=1e-12)
            and np.isclose(scale or 1.0, rotary.scale, rtol=1e-4)):
        raise RigError(f"{file.name} has other rotary angles in {header.architecture}.rope.* than transformers' "
                       f"{model.config.model_type}; take the model's safetensors.")


def _follow_heads(keys: dict[str, Any], config: Any) -> None:
    """Set the size of heads; hidden size ÷ heads if the file has no key for it."""
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int) or hasattr(config, "global_head_dim"):
        return
    usual = config.hidden_size // heads
    size = keys.get("attention.key_length", usual)
    if "head_dim" in vars(config):
        config.head_dim = size
    elif size != usual:
        return
    keys.pop("attention.key_length", None)
    if keys.get("attention.value_length") == size:
        del keys["attention.value_length"]


def _follow_layers(keys: dict[str, Any], config: Any) -> None:
    """Set which layers have sliding windows. The file has a value per layer, or the distance between full layers."""
    window, pattern = keys.get("attention.sliding_window"), keys.get("attention.sliding_window_pattern")
    if window is not None and not hasattr(config, "sliding_window") and window >= keys.get("context_length", 0):
        del keys["attention.sliding_window"]
    if pattern is not None and getattr(config, "layer_types", None):
        slides = [bool((number + 1) % pattern) if isinstance(pattern, int) else bool(pattern[number])
                  for number in range(config.num_hidden_layers)]
        config.layer_types = ["sliding_attention" if each else "full_attention" for each in slides]
        del keys["attention.sliding_window_pattern"]


def _follow_rotary(file: Path, header: GgufHeader, keys: dict[str, Any], config: Any) -> Rotary:
    """Set the config's RoPE as llama.cpp computes it, and return it. Any scaling becomes a factor per pair, written as
    transformers' longrope with two equal lists."""
    parts = config.rope_parameters
    full = parts.get("full_attention", parts)
    size = getattr(config, "global_head_dim", None) or getattr(
        config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    width = keys.pop("rope.dimension_count", size)
    if width != size and full.get("rope_type") != "proportional":
        if "partial_rotary_factor" in full:
            full["partial_rotary_factor"] = width / size
        else:
            keys["rope.dimension_count"] = width
    if not 2 <= width <= size <= MAX_HEAD_SIZE:
        raise RigError(f"{file.name} rotates {width!r:.40} of {size!r:.40} numbers of a head; a head has up to "
                       f"{MAX_HEAD_SIZE:,}, and 2 or more are rotated.")
    base = float(keys.pop("rope.freq_base", 10_000.0))
    plain = base ** (-np.arange(0, width, 2) / width)
    original = keys.pop("rope.scaling.original_context_length", 0) or keys.get("context_length", 0)
    rotary = _scale_frequencies(keys, plain, base, original)
    lists = {name: _read_numbers(file, header, name) for name in (FACTORS, SHORT_FACTORS, LONG_FACTORS)}
    if any(numbers is not None and len(numbers) != len(plain) for numbers in lists.values()):
        raise RigError(f"{file.name} has a list of rotary factors that are not {len(plain)} numbers, one for each pair "
                       "of its heads; fetch it again.")
    short, long_ = (lists[name] if lists[FACTORS] is None else lists[FACTORS] for name in (SHORT_FACTORS, LONG_FACTORS))
    slower = plain / rotary.frequencies
    short, long_ = (slower if numbers is None else slower * numbers for numbers in (short, long_))
    full["rope_theta"] = base
    if full.get("rope_type") != "proportional":
        full["rope_type"] = "default"
        if np.any(short != 1) or np.any(long_ != 1) or rotary.scale != 1:
            full |= {"rope_type": "longrope", "short_factor": short.tolist(), "long_factor": long_.tolist(),
                     "factor": 1.0, "attention_factor": rotary.scale, "original_max_position_embeddings": original}
            if hasattr(config, "original_max_position_embeddings"):  # Phi-3 reads it here
                config.original_max_position_embeddings = original
    if "sliding_attention" in parts:
        near = parts["sliding_attention"]
        near["rope_theta"] = float(keys.pop("rope.freq_base_swa", near["rope_theta"]))
        if keys.get("rope.dimension_count_swa") == config.head_dim:
            del keys["rope.dimension_count_swa"]
    return Rotary(plain / short, rotary.scale)


def _scale_frequencies(keys: dict[str, Any], plain: NDArray[np.float64], base: float, original: int) -> Rotary:
    """Scale plain frequencies by the file's keys and llama.cpp's rules. An unknown kind is left in ``keys``."""
    kind = keys.pop("rope.scaling.type", "linear")
    factors = [keys.pop(name, 0.0) for name in ("rope.scaling.factor", "rope.scale_linear")]  # the second name is older
    factor, scale = next((factor for factor in factors if factor), 1.0), keys.pop("rope.scaling.attn_factor", 1.0)
    fast, slow = (keys.pop(f"rope.scaling.yarn_beta_{name}", usual) for name, usual in (("fast", 32.0), ("slow", 1.0)))
    if kind == "none":
        return Rotary(plain, scale)
    if kind != "yarn":
        if kind not in ("linear", "longrope"):
            keys["rope.scaling.type"] = kind
        return Rotary(plain / factor, scale)
    width = 2 * len(plain)
    first, last = (width * log(original / (turns * 2 * pi)) / (2 * log(base)) for turns in (fast, slow))
    low, high = max(0, floor(first)), min(width - 1, ceil(last))
    kept = 1 - np.clip((np.arange(len(plain)) - low) / max(0.001, high - low), 0, 1)
    return Rotary(plain * kept + plain / factor * (1 - kept), scale * (1 + 0.1 * log(max(factor, 1.0))))


def _read_numbers(file: Path, header: GgufHeader, name: str) -> NDArray[np.float64] | None:
    """Return the values of a small tensor of float32; None if the file has none of that name."""
    tensor = header.tensors.get(name)
    if tensor is None:
        return None
    if tensor.kind != "F32":
        raise RigError(f"{file.name} stores {name} as {tensor.kind}; it has to be F32.")
    return np.fromfile(file, np.float32, tensor.size, offset=tensor.start).astype(np.float64)
