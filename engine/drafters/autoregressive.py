"""Any causal language model that shares the target's tokenizer, as a drafter.

It reads committed tokens, never the target's features. Its proposals depend on their path (papers 000 and 001).
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from engine.checkpoints.files import display_name, has_tokenizer
from engine.checkpoints.loading import causal_config, load_causal, unsupported_drafter_reason
from engine.drafters.beam import PUBLISHED_BEAM, BeamShape, PathDrafter
from engine.drafters.kinds import DrafterPlan, TargetFacts, check_equal
from engine.errors import RigError
from engine.models.cache import cache_argument
from engine.models.target import TorchTarget
from engine.texts.bounded import BoundedTokenizer


class AutoregressiveDrafter(PathDrafter):
    """A language model as a drafter; ids beyond ``vocabulary``, the target's size, are never proposed."""

    def __init__(self, model: PreTrainedModel, vocabulary: int, beam: BeamShape = PUBLISHED_BEAM) -> None:
        self.model, self.vocabulary, self._cache_name = model.eval(), vocabulary, cache_argument(model)
        limit = int(model.config.get_text_config().max_position_embeddings)
        super().__init__(model.get_input_embeddings().weight, beam, limit)

    def _logits(self, tokens: Tensor, positions: Tensor, mask: Tensor, parents: Tensor | None) -> Tensor:
        output = self.model(
            input_ids=tokens[None].clamp(max=len(self._weight) - 1), position_ids=positions[None], attention_mask=mask,
            use_cache=True, logits_to_keep=1 if parents is None else len(tokens), **{self._cache_name: self._cache})
        logits: Tensor = output.logits[0, :, :self.vocabulary].float()
        return logits


def recognises(values: Mapping[str, Any]) -> bool:
    """Accept any config.json; ``plan`` finds out whether transformers knows it as a language model."""
    return True


def plan(folder: Path, target: TargetFacts) -> DrafterPlan:
    """Plan a language model as a drafter; RigError if its tokens are not the target's."""
    config = causal_config(folder)
    if reason := unsupported_drafter_reason(config):
        raise RigError(f"The drafter in {display_name(folder)} is a {config.model_type}: {reason}.")
    config = config.get_text_config()
    if has_tokenizer(folder):
        _check_same_tokens(folder, target.folder)
    else:
        check_equal(folder, "no tokenizer of its own and a vocabulary of", config.vocab_size, target.config.vocab_size)
    return DrafterPlan((), partial(_load, folder))


def _load(folder: Path, target: TorchTarget) -> AutoregressiveDrafter:
    model = load_causal(folder, target.model.dtype, target.device)
    return AutoregressiveDrafter(model, target.config.vocab_size)


def _check_same_tokens(folder: Path, target: Path) -> None:
    """Raise RigError if a token has different ids in the two tokenizers, or an id different tokens."""
    vocabulary, target_vocabulary = BoundedTokenizer(folder).vocabulary(), BoundedTokenizer(target).vocabulary()
    token_of = {number: token for token, number in target_vocabulary.items()}
    for token, number in vocabulary.items():
        if target_vocabulary.get(token, number) != number or token_of.get(number, token) != token:
            raise RigError(f"The drafter in {display_name(folder)} has another tokenizer than the target: its token "
                           f"{number} is {token!r}, the target's is {token_of.get(number)!r}; choose a drafter that "
                           "shares it.")
