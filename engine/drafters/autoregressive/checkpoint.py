"""Any causal language model that shares the target's tokenizer."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from engine.checkpoints.files import display_name
from engine.checkpoints.loading import causal_config, load_causal, load_tokenizer, why_no_drafter
from engine.drafters.autoregressive.drafter import AutoregressiveDrafter
from engine.drafters.kinds import DrafterPlan, Kind, TargetFacts, must_fit
from engine.errors import RigError
from engine.models.target import TorchTarget


def recognises(values: Mapping[str, Any]) -> bool:
    """True for any config.json; ``plan`` then finds out whether transformers knows it as a language model."""
    return True


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """The plan of a language model as a drafter; RigError where its tokens are not the target's."""
    config = causal_config(folder)
    if reason := why_no_drafter(config):
        raise RigError(f"The drafter in {display_name(folder)} is a {config.model_type}: {reason}.")
    config = config.get_text_config()
    if (folder / "tokenizer.json").is_file():
        _same_tokens(folder, target.folder)
    else:
        must_fit(folder, "no tokenizer of its own and a vocabulary of", config.vocab_size, target.config.vocab_size)
    return DrafterPlan((), partial(_load, folder))


def _load(folder: Path, target: TorchTarget) -> AutoregressiveDrafter:
    model = load_causal(folder, target.model.dtype, target.device)
    return AutoregressiveDrafter(model, target.config.vocab_size)


def _same_tokens(folder: Path, target: Path) -> None:
    """RigError where a token has different ids in the two tokenizers, or an id different tokens."""
    vocabulary, wanted = load_tokenizer(folder).get_vocab(), load_tokenizer(target).get_vocab()
    named = {place: token for token, place in wanted.items()}
    for token, place in vocabulary.items():
        if wanted.get(token, place) != place or named.get(place, token) != token:
            raise RigError(f"The drafter in {display_name(folder)} has another tokenizer than the target: its token "
                           f"{place} is {token!r}, the target's is {named.get(place)!r}; choose a drafter that shares "
                           "it.")


autoregressive = Kind(recognises, plan)
