"""Language models without an embedding of their own, which use the target's for input and output.

In a small drafter for a large vocabulary, nearly all weights would be the embedding's; its checkpoint leaves them out
and says so in config.json: ``"embedding_of": "target"``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, PreTrainedModel

from engine.errors import RigError
from engine.runtime.checkpoints.architectures import causal_config
from engine.runtime.checkpoints.files import called, load_weights, placed, read_config
from engine.runtime.target.masks import take_any_mask
from engine.runtime.target.target import TorchTarget

BORROWED = "embedding_of"
LENDER = "target"


def borrows(folder: Path) -> bool:
    """Whether the model in a folder uses the target's embedding; RigError where it names another lender."""
    said = read_config(folder).get(BORROWED)
    if said not in (None, LENDER):
        raise RigError(f"config.json in {called(folder)} has {BORROWED} {said!r:.60}; it has to be {LENDER!r}.")
    return said is not None


def load_borrowing(folder: Path, target: TorchTarget) -> PreTrainedModel:
    """The model in a folder with the target's embedding, ready for tree masks; RigError where it does not fit."""
    config = causal_config(folder)
    config.tie_word_embeddings = True
    model: Any = AutoModelForCausalLM.from_config(config, dtype=target.model.dtype, attn_implementation="sdpa")
    weights = load_weights(folder)
    lent = {"lm_head.weight", f"{model.base_model_prefix}.embed_tokens.weight"}
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items() if name not in lent}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    if wanted != found:
        odd = sorted(set(wanted.items()) ^ set(found.items()))[0][0]
        raise RigError(f"The drafter in {called(folder)} does not fit its own config: tensor {odd} has shape "
                       f"{found.get(odd, 'nothing')} where {wanted.get(odd, 'nothing')} is expected.")
    model.load_state_dict(weights, strict=False)
    model.set_input_embeddings(target.embedding)
    model.tie_weights()
    take_any_mask(model)
    return placed(model, target.device, target.model.dtype).eval()
