"""Small random models of any causal class of transformers, and a drafter that knows half of their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from engine.checkpoints.loading import attention_of
from engine.records import Integers, Lattice

VOCABULARY, DEPTH, SPREAD = 97, 4, 0.15
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 4, "head_dim": 12,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "sliding_window": 5, "num_experts": 4, "num_local_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}


def shrunk(kind: str, dtype: torch.dtype = torch.float32, **changes: Any) -> PreTrainedModel:
    """A random model of the class, with weights large enough that choices differ from place to place. Experts are
    computed one by one: only so do they know float64."""
    defaults = AutoConfig.for_model(kind).to_dict()
    sizes = {name: value for name, value in {**SIZES, **changes}.items() if name in defaults}
    config = AutoConfig.for_model(kind, **sizes)
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, dtype=dtype, attn_implementation=attention_of(config), experts_implementation="eager").eval()
    for value in model.parameters():
        if value.ndim > 1:
            value.data.normal_(0, SPREAD)
    return model


class HalfKnowing:
    """A drafter that knows the text, and is wrong at every third place: its marginals then have the right token
    second."""

    def __init__(self, prompt_ids: Sequence[int], token_ids: Sequence[int], seed: int = 0) -> None:
        self.whole, self.start, self.seed = [*prompt_ids, *token_ids], 0, seed

    def begin(self, rows: int) -> None:
        """See ``plan.Drafter``."""
        self.start = 0

    def observe(self, token_ids: Integers, features: object) -> None:
        """See ``plan.Drafter``."""
        self.start += len(token_ids)

    def draft(self, root: int, width: int) -> Lattice:
        """See ``plan.Drafter``."""
        known = [*self.whole[self.start + 1:], *[3] * DEPTH][:DEPTH]
        random = np.random.default_rng([self.seed, self.start])
        tokens = np.zeros((DEPTH, 1, width), np.int32)
        for depth, token in enumerate(known):
            others = random.permutation([other for other in range(VOCABULARY) if other != token])[:width]
            wrong = int(random.random() < 1 / 3) if width > 1 else 0
            tokens[depth, 0] = np.insert(others, wrong, token)[:width]
        logprobs = np.log(np.float32(0.5)) * np.arange(1, width + 1, dtype=np.float32)
        return Lattice(tokens, np.broadcast_to(logprobs, tokens.shape).copy(), np.zeros_like(tokens))

    def release(self) -> None:
        """See ``plan.Drafter``."""

    def fork(self) -> HalfKnowing:
        """See ``plan.Drafter``."""
        return HalfKnowing(self.whole, (), self.seed)
