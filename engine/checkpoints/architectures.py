"""Which models can verify trees: causal language models with standard attention; and why any other cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from engine.checkpoints.files import called, first_line, read_config
from engine.errors import RigError

SEEN_WHOLE = frozenset({"full_attention", "sliding_attention"})
ALIBI = frozenset({"bloom", "mpt"})
SMALLEST_WINDOW = 512  # positions: with a smaller window texts would be too short to be of use


def causal_config(folder: Path) -> PreTrainedConfig:
    """The config of a causal language model; RigError says why a model cannot serve. No code in the folder is run."""
    read_config(folder)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RigError(f"config.json in {called(folder)} describes no model that transformers knows without running "
                       f"code of the checkpoint ({first_line(error)}).") from error
    kind = config.model_type
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise RigError(f"The model in {called(folder)} is a {kind}, for which transformers has no causal language "
                       "model.")
    reason = why_not(config)
    if reason:
        raise RigError(f"The model in {called(folder)} is a {kind}: {reason}.")
    return config


def why_not(config: PreTrainedConfig) -> str:
    """The reason why this architecture cannot verify trees; empty where it can."""
    text: Any = config.get_text_config()
    odd = sorted(set(getattr(text, "layer_types", None) or ()) - SEEN_WHOLE)
    if getattr(MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], "_is_stateful", False) or any(
            "linear" in kind or "mamba" in kind for kind in odd):
        return "its layers carry a recurrent state, which cannot be wound back to a node of a tree"
    if odd:
        return f"its layers of kind {', '.join(odd)} are not standard attention"
    if getattr(config, "is_encoder_decoder", False):
        return "it has an encoder, and only decoders can be verified as trees"
    if getattr(text, "kv_lora_rank", None):
        return "it keeps compressed keys and values (latent attention), which the tree cache cannot hold"
    if getattr(text, "num_kv_shared_layers", 0):
        return "some of its layers share keys and values, which the tree cache cannot hold"
    if text.model_type in ALIBI or getattr(text, "alibi", False):
        return "its attention counts rows instead of positions (ALiBi), so siblings would see each other's distance"
    differing = ", ".join(sorted(getattr(text, "per_layer_attributes", None) or ()))
    if differing or not isinstance(getattr(text, "num_attention_heads", None), int):
        return f"its layers differ in {differing or 'their number of heads'}, which the tree cache cannot hold"
    window = window_of(text)
    if 0 < window < SMALLEST_WINDOW:
        return f"its attention sees {window} positions, fewer than the {SMALLEST_WINDOW} that a text needs"
    quantised = quantised_by(config) or quantised_by(text)
    return quantised and (f"its weights are quantised ({quantised}); Canopy reads bfloat16, float16 and float32 "
                          "weights, so name an unquantised checkpoint")


def quantised_by(config: Any) -> str:
    """The method that the weights are quantised by, as the config names it; empty where they are not quantised."""
    said = getattr(config, "quantization_config", None) or getattr(config, "compression_config", None)
    if not said:
        return ""
    options = said if isinstance(said, dict) else vars(said)
    if options.get("load_in_4bit") or options.get("load_in_8bit"):
        return "bitsandbytes"
    return str(getattr(options.get("quant_method"), "value", options.get("quant_method")) or "by an unnamed method")


def window_of(text: Any) -> int:
    """How many positions the sliding-window layers see; 0 where every layer sees all positions."""
    kinds = getattr(text, "layer_types", None)
    if not getattr(text, "use_sliding_window", True) or (kinds and "sliding_attention" not in kinds):
        return 0
    return int(getattr(text, "sliding_window", None) or 0)


def within_window(config: PreTrainedConfig) -> str:
    """Limit the context of a model with sliding-window layers to the window, within which sliding and full attention
    are the same. Returns a sentence that says so; empty for other models."""
    text: Any = config.get_text_config()
    window = window_of(text)
    if not 0 < window < text.max_position_embeddings:
        return ""
    text.max_position_embeddings = window
    return f"Some layers of the target see {window} positions, so texts end there."
