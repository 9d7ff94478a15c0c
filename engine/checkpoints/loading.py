"""Loads models from checkpoint folders: safetensors only, no code of the checkpoint's.

RigError if one cannot be loaded, or if its architecture cannot verify trees.
"""

from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from engine.checkpoints.files import display_name, first_line, read_config, stored_tensors
from engine.checkpoints.memory import DeviceMap, layer_configs
from engine.checkpoints.weights import DERIVED_TENSORS, check_floats, check_not_quantised
from engine.errors import RigError
from engine.models.attention import EAGER, FUSED, takes_windows
from engine.models.recurrent import caches_recurrent_state

CAUSAL = frozenset([*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values(), *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()])
ALIBI = frozenset({"bloom", "mpt"})
ONE_DEVICE: DeviceMap = MappingProxyType({})
ONE_AT_A_TIME = Lock()  # transformers patches its classes while it loads a model; two loads at once leave them patched


def causal_config(folder: Path) -> PreTrainedConfig:
    """Return the config of a causal language model; RigError says why a model cannot serve."""
    read_config(folder)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RigError(f"config.json in {display_name(folder)} describes no model that transformers knows without "
                       f"running code of the checkpoint ({first_line(error)}).") from error
    model = f"The model in {display_name(folder)} is a"
    if auto_class(config) is None:
        raise RigError(f"{model} {config.model_type}, for which transformers has no causal language model.")
    if named := [name for name in config.architectures or () if name not in CAUSAL]:
        raise RigError(f"{model} {named[0]}, which is no causal language model that transformers knows.")
    if reason := unsupported_reason(config):
        raise RigError(f"{model} {config.model_type}: {reason}.")
    check_not_quantised(folder)
    return config


def auto_class(config: PreTrainedConfig) -> Any:
    """Return the class that loads a model: of its text part if the checkpoint holds no more, else of the multimodal
    model; None if transformers has neither."""
    named = (config.architectures or [""])[0]
    multimodal = AutoModelForImageTextToText._model_mapping.get(type(config), None)
    if type(config) in AutoModelForCausalLM._model_mapping and not (multimodal and named == multimodal.__name__):
        return AutoModelForCausalLM
    return AutoModelForImageTextToText if multimodal else None


def model_class(config: PreTrainedConfig) -> Any:
    """Return the model's class in transformers."""
    return auto_class(config)._model_mapping[type(config)]


def unsupported_reason(config: PreTrainedConfig) -> str:
    """Say why this architecture cannot verify trees; "" if it can."""
    if getattr(config, "is_encoder_decoder", False):
        return "it has an encoder, and only decoders can be verified as trees"
    text_config: Any = config.get_text_config()
    kinds = set(getattr(text_config, "layer_types", None) or ())
    squeezed = sorted(kind for kind in kinds if "compressed" in kind)
    if squeezed:
        return f"its layers of kind {', '.join(squeezed)} keep one entry for several positions, not one for each"
    if getattr(text_config, "indexer_compress_ratio", None) or getattr(text_config, "index_kpool", None):
        return "its layers choose what they see by blocks of positions, and branches of a tree share no block"
    model = model_class(config)
    if not isinstance(getattr(text_config, "num_hidden_layers", None), int):
        return "its layers are several stacks, not one"
    base = AutoModel._model_mapping.get(type(text_config), model)
    if getattr(model, "_is_stateful", False) and not caches_recurrent_state(base):
        return "its layers keep a recurrent state that transformers' cache does not hold"
    if config.model_type.endswith("_assistant"):
        return "it is a drafter, which reads another model's keys and values"
    if text_config.model_type in ALIBI or getattr(text_config, "alibi", False):
        return "its attention counts rows instead of positions (ALiBi), so siblings would see each other's distance"
    windows = any(getattr(layer, "use_sliding_window", True) and getattr(layer, "sliding_window", None)
                  for layer in layer_configs(text_config))
    if (any("sliding" in kind for kind in kinds) or windows and not kinds) and not takes_windows(model):
        return "its windows are masks of its own, which have no tree in them"
    return ""


def unsupported_drafter_reason(config: PreTrainedConfig) -> str:
    """Say why a model that can be a target cannot draft; "" if it can."""
    text_config: Any = config.get_text_config()
    others = sorted(set(getattr(text_config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"})
    if others or getattr(model_class(config), "_is_stateful", False):
        return f"its layers of kind {', '.join(others) or 'recurrent'} are a target's, not a drafter's"
    if getattr(text_config, "kv_lora_rank", None) or getattr(text_config, "per_layer_attributes", None):
        return "its layers keep keys and values of several sizes, which only a target may"
    return ""


def load_causal(folder: Path, dtype: torch.dtype, device: torch.device,
                device_map: DeviceMap = ONE_DEVICE) -> PreTrainedModel:
    """Return the causal language model in a folder, in evaluation mode and ready for tree masks, on the device or
    spread as ``device_map`` says; RigError if it cannot be loaded."""
    config = causal_config(folder)
    check_floats(folder)
    layers, tensors = int(config.get_text_config().num_hidden_layers), len(stored_tensors(folder))
    if layers > tensors:  # what is missing would be made in memory
        raise RigError(f"config.json in {display_name(folder)} counts {layers:,} layers, and the weights have "
                       f"{tensors:,} tensors; fetch it again.")
    try:
        with ONE_AT_A_TIME:
            loaded: Any = auto_class(config).from_pretrained(
                folder, config=config, dtype=dtype, use_safetensors=True, local_files_only=True,
                trust_remote_code=False, attn_implementation=attention_of(config), output_loading_info=True,
                device_map=dict(device_map) or None)
        model, report = loaded
    except torch.OutOfMemoryError:
        raise
    except (ImportError, OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise RigError(f"The model in {display_name(folder)}, a {config.model_type}, cannot be loaded "
                       f"({first_line(error)}); install the package that this names, or fetch it again.") from error
    text_config = model.config.get_text_config()
    misfits = sorted(name for name in report["unexpected_keys"] if not name.endswith(DERIVED_TENSORS))
    if getattr(text_config, "num_nextn_predict_layers", None):  # that layer drafts, see ``drafters.mtp``
        misfits = [name for name in misfits if f".layers.{text_config.num_hidden_layers}." not in name]
    misfits += [f"no {name}" for name in sorted(report["missing_keys"])]
    if misfits:
        raise RigError(f"The weights in {display_name(folder)} have {misfits[0]} (and {len(misfits) - 1} more), and a "
                       f"{type(model).__name__} has other tensors; fetch them again, or choose another revision.")
    if all(getattr(layer, "num_key_value_heads", None) is None for layer in layer_configs(text_config)):
        text_config.num_key_value_heads = text_config.num_attention_heads  # older architectures have one number
    return (model if device_map else model.to(device)).eval()


def attention_of(config: PreTrainedConfig) -> str | dict[str, str]:
    """Return the attention to load a model with, of a multimodal one its text part alone. Fused attention knows neither
    caps nor sinks; models older than the registry of masks take theirs as given."""
    model, text_config = model_class(config), config.get_text_config()
    fused = model._supports_sdpa and not getattr(text_config, "attn_logit_softcapping", None)
    name = {True: FUSED if fused else EAGER, False: "sdpa" if fused else "eager"}[takes_windows(model)]
    multimodal = auto_class(config) is AutoModelForImageTextToText
    parts = [part for part in config.sub_configs if multimodal and getattr(config, part, None) is text_config]
    return {parts[0]: name} if parts else name
