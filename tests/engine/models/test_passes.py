"""The fused forward pass against the reference one, and which models may take it."""

from typing import Any

import pytest
import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention
from transformers import (
    AutoModelForCausalLM,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from engine.models.cache import TreeCache
from engine.models.layers import Norm
from engine.models.passes import FusedPass, ReferencePass, fastest_pass
from engine.models.rows import PassPart, PassRows

TAPS = (0, 1)
SIZES = {"vocab_size": 61, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
PREFIX, ROWS, SPARE, SIZE = 9, 5, 30, 16
SERVED = {
    "qwen3": Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True),
    "qwen3, biases": Qwen3Config(**SIZES, head_dim=16, attention_bias=True),
    "qwen2": Qwen2Config(**SIZES),
    "llama": LlamaConfig(**SIZES, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen3, experts": Qwen3MoeConfig(**SIZES, head_dim=16, num_experts=6, num_experts_per_tok=2,
                                     moe_intermediate_size=24, mlp_only_layers=[1]),
}
OTHERS = {
    "gemma": GemmaConfig(**SIZES, head_dim=16),
    "mistral with a window": MistralConfig(**SIZES, sliding_window=8),
    "llama, biased gates": LlamaConfig(**SIZES, mlp_bias=True),
    "llama, angles that follow the length": LlamaConfig(**SIZES, rope_parameters={
        "rope_type": "dynamic", "rope_theta": 500.0, "factor": 2.0}),
}


def model_of(config: PretrainedConfig) -> Any:
    """Return a model with random weights, large enough that a wrong angle or gain shows."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa").eval()
    for value in model.parameters():
        value.data.normal_(0, 1.0 if value.ndim == 1 else 0.15)
    return model


# Five rows after the prefix: 0 ← 1 ← 3, 0 ← 2 ← 4.
SEEN = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [1, 0, 1, 0, 1]]).bool()


def outputs_of(way: ReferencePass | FusedPass, reference: ReferencePass, rows: int = ROWS) -> tuple[
        torch.Tensor, ...]:
    """Return a pass's logits and taps of the rows after a prefix, and the keys and values that it wrote."""
    torch.manual_seed(4)
    cache = TreeCache(reference.model.config, PREFIX + ROWS + SPARE, reference.model.get_input_embeddings().weight)
    reference([PassPart(PassRows(torch.randint(0, 61, (PREFIX,)), torch.arange(PREFIX)), cache)])
    cache.length = PREFIX
    seen = None if rows == 1 else SEEN
    positions = PREFIX + torch.tensor([0, 1, 1, 2, 2])[:rows]
    (output,) = way([PassPart(PassRows(torch.randint(0, 61, (rows,)), positions, seen), cache)])
    return *output, cache.slots[..., :PREFIX + rows, :]


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("name", SERVED)
@torch.inference_mode()
def test_the_fused_pass_equals_transformers_in_output_and_cache(name: str, rows: int) -> None:
    reference = ReferencePass(model_of(SERVED[name]), TAPS)
    expected = outputs_of(reference, reference, rows)
    fused = fastest_pass(reference.model, reference)
    assert isinstance(fused, FusedPass)
    torch.testing.assert_close(outputs_of(fused, reference, rows), expected, atol=2e-5, rtol=1e-4)


@torch.inference_mode()
def test_the_layout_of_attentions_result_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = ReferencePass(model_of(SERVED["qwen3"]), TAPS)
    expected = outputs_of(reference, reference)

    def by_rows(*given: Any, **named: Any) -> torch.Tensor:  # the layout of a GPU's memory-efficient kernel
        return scaled_dot_product_attention(*given, **named).transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr("engine.models.layers.scaled_dot_product_attention", by_rows)
    fused = fastest_pass(reference.model, reference)
    torch.testing.assert_close(outputs_of(fused, reference), expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", OTHERS)
def test_other_architectures_run_in_transformers(name: str) -> None:
    reference = ReferencePass(model_of(OTHERS[name]), TAPS)
    assert fastest_pass(reference.model, reference) is reference


def test_no_weight_is_stored_twice() -> None:
    model = model_of(SERVED["qwen3"])
    fused = FusedPass(model, TAPS)
    attention = model.model.layers[0].self_attn
    assert attention.q_proj.weight.data_ptr() == fused.layers[0].inputs.weight.data_ptr()
    storages = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in model.parameters()}
    assert sum(storages.values()) == sum(value.nbytes for value in model.parameters())


def test_the_table_of_rotary_angles_grows_with_the_text() -> None:
    rotations = FusedPass(model_of(SERVED["qwen3"]), TAPS).rotations
    early = [factor.clone() for factor in rotations.span(0, 3)]
    late = rotations.at(torch.tensor([40, 2]), 41)
    torch.testing.assert_close(late[0][1], early[0][2])
    torch.testing.assert_close(rotations.span(40, 41)[1][0], late[1][0])


@pytest.mark.parametrize("scale", [1e-4, 1.0, 30.0])
def test_a_norm_equals_torchs(scale: float) -> None:
    torch.manual_seed(0)
    states, gain = scale * torch.randn(7, 48), torch.randn(48)
    torch.testing.assert_close(Norm(gain, 1e-6)(states), rms_norm(states, (48,), gain, 1e-6))
    torch.testing.assert_close(Norm(gain, 1e-6)(0 * states), 0 * states)
