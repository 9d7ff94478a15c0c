"""Loads models from checkpoint folders: safetensors only, no code of the checkpoint's; RigError where one cannot be."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from engine.checkpoints.architectures import causal_config
from engine.checkpoints.files import LARGEST, called, first_line, must_have_layers, require
from engine.checkpoints.several_gpus import Places
from engine.errors import CancellationError, RigError
from engine.models.masks import take_any_mask

WHOLE: Places = MappingProxyType({})
ONE_AT_A_TIME = Lock()  # transformers changes its classes while it loads a model, and two loads leave them changed


def load_causal(folder: Path, dtype: torch.dtype, device: torch.device, places: Places = WHOLE) -> PreTrainedModel:
    """The causal language model in a local folder, in evaluation mode and ready for tree masks: on the device, or with
    its modules on the GPUs that ``places`` names. RigError where it cannot be loaded."""
    config = causal_config(folder)
    must_have_layers(folder, int(config.get_text_config().num_hidden_layers))
    capped = getattr(config.get_text_config(), "attn_logit_softcapping", None)  # fused attention would leave it out
    try:
        with ONE_AT_A_TIME:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, config=config, dtype=dtype, use_safetensors=True, local_files_only=True,
                trust_remote_code=False, attn_implementation="eager" if capped else "sdpa", output_loading_info=True,
                device_map=dict(places) or None)
        model, report = loaded
    except torch.OutOfMemoryError:
        raise
    except (OSError, SafetensorError, ValueError, RuntimeError, ImportError) as error:
        raise RigError(
            f"The model in {called(folder)} cannot be loaded ({first_line(error)}); fetch it again.") from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise RigError(f"The weights in {called(folder)} have no {missing[0]} (and {len(missing) - 1} more tensors); "
                       "the checkpoint does not fit its own config.json, so fetch it again.")
    must_stop(model, folder)
    text = model.config.get_text_config()
    if getattr(text, "num_key_value_heads", None) is None:
        text.num_key_value_heads = text.num_attention_heads  # older architectures have no separate number
    take_any_mask(model)
    return (model if places else model.to(device)).eval()


def must_stop(model: PreTrainedModel, folder: Path) -> None:
    """RigError where what ends a text is no token."""
    stop = model.generation_config.eos_token_id
    for token in stop if isinstance(stop, list) else [] if stop is None else [stop]:
        if type(token) is not int or not 0 <= token <= LARGEST:
            raise RigError(f"generation_config.json in {called(folder)} has eos_token_id {stop!r:.60}; it has to be a "
                           "token's number, or a list of such.")


def load_tokenizer(folder: Path, vocabulary: int | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer in a model's folder; RigError where it cannot be loaded, or where it makes tokens out of text that
    are none of the model's ``vocabulary``."""
    require(folder, "tokenizer_config.json" if list(folder.glob("*.model")) else "tokenizer.json")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        tokenizer.decode(tokenizer.encode("A text."))  # which some values are first read by
        special = {place for place, token in tokenizer.added_tokens_decoder.items() if token.special}
        beyond = {place for place in tokenizer.get_vocab().values() if vocabulary is not None and place >= vocabulary}
    except BaseException as error:  # a damaged file brings about anything, and the library's panics are no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | CancellationError):
            raise
        raise RigError(
            f"The tokenizer in {called(folder)} cannot be loaded ({first_line(error)}); fetch it again.") from error
    if left := beyond - special:  # some models have no row for images' tokens, which no text is turned into
        raise RigError(f"The tokenizer in {called(folder)} has the token {min(left)}, and the model a vocabulary of "
                       f"{vocabulary}; fetch it again.")
    return tokenizer
