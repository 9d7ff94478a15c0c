"""Any causal language model that shares the target's tokenizer, as a drafter.

It reads committed tokens, never the target's features: its proposals are conditionals (papers 000 and 001, where the
drafters see their path).
"""

from torch import Tensor
from transformers import PreTrainedModel

from engine.drafters.beam import PUBLISHED, PathDrafter, Reach
from engine.models.cache import TreeCache


class AutoregressiveDrafter(PathDrafter):
    """A language model as a drafter. ``vocabulary`` is the target's size; ids beyond it are never proposed."""

    def __init__(self, model: PreTrainedModel, vocabulary: int, reach: Reach = PUBLISHED) -> None:
        self.model, self.vocabulary = model.eval(), vocabulary
        self.config = model.config.get_text_config()
        super().__init__(model.get_input_embeddings().weight, reach, int(self.config.max_position_embeddings))

    def begin(self, rows: int) -> None:
        super().begin(rows)
        self._cache = TreeCache(self.config, min(rows, self.limit) + self.reach.rows if rows else 0, self._weight)

    def _logits(self, tokens: Tensor, positions: Tensor, mask: Tensor, parents: Tensor | None) -> Tensor:
        if parents is None:
            self._cache.length = self._length
        output = self.model(
            input_ids=tokens[None].clamp(max=len(self._weight) - 1), position_ids=positions[None], attention_mask=mask,
            past_key_values=self._cache, use_cache=True, logits_to_keep=1 if parents is None else len(tokens))
        self._cache.length += len(tokens)
        logits: Tensor = output.logits[0, :, :self.vocabulary].float()
        return logits
