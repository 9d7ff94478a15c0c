"""Finds quantised weights of which config.json's quantization_config says nothing. Imports no torch."""

import json
from pathlib import Path

from engine.checkpoints.files import display_name, read_config, stored_tensors
from engine.errors import RigError

REASON = ("its weights are quantised ({}); Canopy reads bfloat16, float16 and float32 weights, so name an unquantised "
          "checkpoint")
BESIDE = ("quantize_config.json", "quant_config.json", "hf_quant_config.json")  # of GPTQ, AWQ and ModelOpt
PLAIN = frozenset({"F64", "F32", "F16", "BF16", "I64", "BOOL"})  # how tensors are stored that are not quantised
DERIVED = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")  # that old checkpoints store, and no model needs


def check_not_quantised(folder: Path) -> None:
    """RigError if MLX's field of config.json, or a file beside it, says that the weights are quantised."""
    reasons = ["quantization in config.json"] if read_config(folder).get("quantization") else []
    reasons += [name for name in BESIDE if (folder / name).is_file() and _speaks_of_weights(folder / name)]
    if reasons:
        raise RigError(f"The model in {display_name(folder)} cannot be read: {REASON.format(reasons[0])}.")


def _speaks_of_weights(path: Path) -> bool:
    """Return whether such a file is about weights; ModelOpt's may be about the KV cache alone."""
    try:
        return bool(json.loads(path.read_text(encoding="utf8"))["quantization"]["quant_algo"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return True


def check_floats(folder: Path) -> None:
    """RigError naming a matrix that is stored in another type than models compute in; without its scales it means
    nothing."""
    for name, (kind, shape) in stored_tensors(folder).items():
        if len(shape) > 1 and kind not in PLAIN and not name.endswith(DERIVED):
            reason = REASON.format(f"{name} is stored as {kind}")
            raise RigError(f"The model in {display_name(folder)} cannot be read: {reason}.")
