"""Packed and 4-bit weights give the original products, and are stored once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from engine.decoding.tree import pack, path_to
from engine.models.level_product import CompiledProduct
from engine.models.packed_linear import (
    GROUP,
    LANES,
    PACKED_BYTES,
    Levels,
    LevelsProduct,
    PackedHead,
    PackedInt4,
    PackedLinear,
    biases,
    join_projections,
    levels_of,
    rounded_levels,
)
from engine.models.target import TorchTarget
from engine.records import DraftTree, Sampling
from engine.requests.rig_names import INT4
from engine.serving.precision import storage_of
from tests.engine.small import VOCABULARY, small_config, small_target

ROWS = (1, 2, 16, 17, 33, 65)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_products_of_any_number_of_rows_equal_torchs(dtype: torch.dtype, bias: bool) -> None:
    """Test joined projections, which transformers still reads one by one, and an output head."""
    torch.manual_seed(0)
    modules = [nn.Linear(64, outputs, bias=bias, dtype=dtype) for outputs in (96, 32, 32)]
    head = nn.Linear(64, 1000, bias=bias, dtype=dtype)
    weights = torch.cat([module.weight for module in modules])
    joined, packed_head = PackedLinear(join_projections(modules), biases(modules)), PackedHead(head)
    close = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 2e-2, "rtol": 2e-2}
    exact = close if dtype == torch.float32 else {"atol": 0, "rtol": 0}  # reordering bfloat16 keeps the bits
    for inputs in (torch.randn(rows, 64).to(dtype) for rows in ROWS):
        product = joined(inputs)
        torch.testing.assert_close(product, linear(inputs, weights, biases(modules)), **exact)
        torch.testing.assert_close(torch.cat([module(inputs) for module in modules], -1), product, **close)
        torch.testing.assert_close(packed_head(inputs), head(inputs), **close)
        torch.testing.assert_close(packed_head(inputs[None])[0], head(inputs), **close)


def test_a_head_too_large_for_a_copy_uses_its_own_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.packed_linear.MAX_COPIED_HEAD_BYTES", 1000)
    monkeypatch.setattr(
        "engine.models.packed_linear.reorder_for_onednn", lambda *_: pytest.fail("there is no room for a layout"))
    with torch.inference_mode():
        PackedHead(nn.Linear(64, 1000))(torch.zeros(17, 64))


OUTPUTS, INPUTS = 48, 96
PROMPT = 70


def on_levels(highest: int = 15, lowest: float = -0.3, outputs: int = OUTPUTS, inputs: int = INPUTS) -> Tensor:
    """Return a bfloat16 weight whose groups use the levels 0 to ``highest``, both included; steps differ."""
    torch.manual_seed(0)
    numbers = torch.randint(0, highest + 1, (outputs, inputs // GROUP, GROUP))
    numbers[..., 0], numbers[..., 1] = 0, highest
    steps = torch.rand(outputs, inputs // GROUP, 1) * 0.05 + 0.02
    return (lowest + numbers * steps).flatten(1).bfloat16()


@pytest.mark.parametrize("weight", [
    pytest.param(on_levels(), id="all levels"),
    pytest.param(on_levels(highest=9), id="ten levels"),
    pytest.param(on_levels(highest=1, lowest=-0.01), id="two levels"),
    pytest.param(torch.full((OUTPUTS, INPUTS), 0.37).bfloat16(), id="equal"),
    pytest.param(torch.zeros(OUTPUTS, INPUTS).bfloat16(), id="zero"),
])
def test_levels_reproduce_the_weight(weight: Tensor) -> None:
    levels = levels_of(weight)
    assert levels is not None
    assert levels.numbers.min() >= 0 and levels.numbers.max() <= 15
    torch.testing.assert_close(levels.dense().float(), weight.float(), atol=2.0**-7, rtol=2.0**-7)


PRODUCTS: dict[str, LevelsProduct] = {"torch": PackedInt4, "compiled": CompiledProduct}


@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_packed_weight_has_the_predicted_size(kind: str) -> None:
    weight = on_levels()
    levels = levels_of(weight)
    assert levels is not None
    tensors = vars(PRODUCTS[kind](levels)).values()
    assert sum(one.nbytes for one in tensors if isinstance(one, Tensor)) == PACKED_BYTES * weight.numel()
    assert storage_of(INT4).extra_bytes >= max(PACKED_BYTES, weight.itemsize), "a finer weight is stored twice"


@pytest.mark.parametrize("kind", PRODUCTS)
def test_the_product_equals_the_dense_one_and_rows_are_independent(kind: str) -> None:
    """Rows of very different magnitudes keep their own precision."""
    levels = levels_of(on_levels(outputs=OUTPUTS + LANES))
    assert levels is not None
    product, inputs = PRODUCTS[kind](levels), torch.randn(17, INPUTS) * torch.logspace(-25, 25, 17)[:, None]
    inputs[3], inputs[5, :40], inputs[:, 7] = 0, 0, 60 * inputs[:, 8]
    inputs = inputs.bfloat16()
    outputs = product(inputs)
    exact = linear(inputs.double(), levels.dense().double())
    largest = linear(inputs.double().abs(), levels.dense().double().abs())
    assert bool(((outputs.double() - exact).abs() <= 2.0**-8 * exact.abs() + 2.0**-9 * largest).all())
    assert all(torch.equal(product(inputs[first:first + rows]), outputs[first:first + rows])
               for rows in range(1, 17) for first in range(18 - rows))


@pytest.mark.parametrize("inputs", [torch.zeros(2, INPUTS), torch.zeros(INPUTS).bfloat16(),
                                    torch.zeros(2, INPUTS - GROUP).bfloat16()])
def test_the_compiled_product_refuses_inputs_of_another_dtype_or_shape(inputs: Tensor) -> None:
    levels = levels_of(on_levels())
    assert levels is not None
    with pytest.raises(RuntimeError, match=str(INPUTS)):
        CompiledProduct(levels)(inputs)


def test_the_compiled_product_is_within_bfloat16_rounding() -> None:
    numbers = torch.randint(0, 16, (OUTPUTS, 20, GROUP)).float()
    levels = Levels(numbers, torch.randn(OUTPUTS, 20, 2).bfloat16())
    steps, middles = levels.scales.double().split(1, -1)
    weight, inputs = (middles + (numbers - 8) * steps).flatten(1), torch.randn(9, 20 * GROUP).bfloat16()
    exact = linear(inputs.double(), weight)
    off = (CompiledProduct(levels)(inputs).double() - exact).abs() - 2.0**-8 * exact.abs()
    assert bool((off <= 2.0**-17 * linear(inputs.double().abs(), weight.abs())).all())


def on_eight_bit_levels(outputs: int = OUTPUTS, inputs: int = INPUTS) -> Tensor:
    """Return a bfloat16 weight of the form of Q8_0, with one group of zeros."""
    torch.manual_seed(0)
    numbers = torch.randint(-127, 128, (outputs, inputs // GROUP, GROUP))
    numbers[..., 5] = 127 * (-1) ** torch.arange(outputs)[:, None]
    numbers[3, 0] = 0
    steps = (torch.rand(outputs, inputs // GROUP, 1) * 0.05 + 0.0001).half().float()
    return (numbers * steps).flatten(1).bfloat16()


def test_an_eight_bit_weight_is_exact_and_its_product_within_rounding() -> None:
    weight = on_eight_bit_levels(outputs=OUTPUTS + LANES)
    levels = CompiledProduct.levels_of(weight)
    assert levels is not None
    exact_weight = ((levels.numbers.double() - 128) * levels.scales.double()).flatten(1)
    assert torch.equal(exact_weight.bfloat16(), weight)
    product, inputs = CompiledProduct(levels), torch.randn(17, INPUTS) * torch.logspace(-25, 25, 17)[:, None]
    inputs[3], inputs[5, :40] = 0, 0
    inputs = inputs.bfloat16()
    outputs, exact = product(inputs), linear(inputs.double(), exact_weight)
    off = (outputs.double() - exact).abs() - 2.0**-8 * exact.abs()
    assert bool((off <= 2.0**-13 * linear(inputs.double().abs(), exact_weight.abs())).all())
    assert all(torch.equal(product(inputs[first:first + rows]), outputs[first:first + rows])
               for rows in range(1, 17) for first in range(18 - rows))


OFF_FOUR = (on_levels(highest=16), on_levels(lowest=40.0), on_levels(outputs=OUTPUTS - 8))  # 17 levels; steps finer
# than bfloat16; no kernel for this number of outputs


@pytest.mark.parametrize(("levels", "sound", "others"), [
    (levels_of, on_levels(), OFF_FOUR),
    (CompiledProduct.levels_of, on_eight_bit_levels(), (on_levels(), on_eight_bit_levels().float()))])
def test_a_weight_that_is_not_on_levels_has_no_levels(
        levels: Callable[[Tensor], Levels | None], sound: Tensor, others: Sequence[Tensor]) -> None:
    assert levels(sound) is not None
    off = (sound + 0.02 * torch.eye(OUTPUTS, INPUTS)).bfloat16()
    no_numbers = (sound.index_fill(0, torch.tensor([3]), number) for number in (torch.nan, torch.inf))
    for weight in (off, sound[:, :-16].contiguous(), torch.randn(OUTPUTS, INPUTS).bfloat16(), *no_numbers, *others):
        assert levels(weight) is None


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_nan_or_infinity_stays_in_its_row(number: float) -> None:
    levels = levels_of(on_levels())
    assert levels is not None
    product, inputs = CompiledProduct(levels), torch.randn(4, INPUTS).bfloat16()
    expected = product(inputs)
    inputs[1, 40] = number
    outputs = product(inputs)
    assert bool(outputs[1].isnan().all()) and torch.equal(outputs[[0, 2, 3]], expected[[0, 2, 3]])


def test_products_run_concurrently_in_several_threads() -> None:
    """Threads have their own teams and compute several products at once."""
    levels = levels_of(on_levels(outputs=960, inputs=576))
    assert levels is not None
    product, inputs = CompiledProduct(levels), torch.randn(5, 576).bfloat16()
    expected = product(inputs)
    with ThreadPoolExecutor(3) as threads:
        equal = list(threads.map(lambda _: torch.equal(product(inputs), expected), range(300)))
    assert all(equal)


@torch.inference_mode()
def test_enabling_levels_keeps_the_product() -> None:
    weight, bias, inputs = on_levels(), torch.randn(OUTPUTS).bfloat16(), torch.randn(40, INPUTS).bfloat16()
    product = PackedLinear(weight, bias)
    assert product.enable_levels()
    torch.testing.assert_close(product(inputs), linear(inputs, weight, bias), atol=3e-2, rtol=2e-2)
    assert not PackedLinear(torch.randn(OUTPUTS, INPUTS).bfloat16()).enable_levels()


@torch.inference_mode()
def test_other_weights_are_rounded_to_the_nearest_of_sixteen_levels() -> None:
    weight, inputs = torch.randn(OUTPUTS, INPUTS).bfloat16(), torch.randn(9, INPUTS).bfloat16()
    weight[3] = weight[3].abs()  # 0 is still one of the levels
    weight[4] = 0
    levels = rounded_levels(weight)
    assert levels is not None
    steps = levels.scales[..., :1].float()
    off = (levels.dense().float() - weight.float()).view(OUTPUTS, -1, 32).abs()
    assert bool((off <= 0.5 * steps + 2.0**-6 * weight.float().abs().max()).all())
    assert bool((levels.dense()[4] == 0).all()) and levels.numbers.unique().tolist() == list(range(16))
    product = PackedLinear(weight.clone())
    assert product.enable_levels(rounded_levels) and torch.equal(product.weight, levels.dense())
    torch.testing.assert_close(product(inputs), linear(inputs, levels.dense()), atol=6e-2, rtol=2e-2)


@pytest.mark.parametrize("block_rows", [None, 1, 4])
@torch.inference_mode()
def test_rows_of_a_batch_invariant_product_do_not_affect_each_other(block_rows: int | None) -> None:
    weight, bias, inputs = torch.randn(512, 96).bfloat16(), torch.randn(512).bfloat16(), torch.randn(70, 96).bfloat16()
    product = PackedLinear(weight, bias)
    product.make_batch_invariant(block_rows)
    outputs = product(inputs)
    torch.testing.assert_close(outputs, linear(inputs, weight, bias), atol=2e-2, rtol=2e-2)
    assert all(torch.equal(product(inputs[first:first + rows]), outputs[first:first + rows])
               for rows in (1, 2, 3, 5, 8, 17, 33) for first in range(0, 70 - rows))
    assert torch.equal(product(inputs[:6].view(2, 3, -1)), outputs[:6].view(2, 3, -1))


def test_a_batch_invariant_product_keeps_only_its_rows() -> None:
    product = PackedLinear(torch.randn(64, 32).bfloat16())
    product.make_batch_invariant(32)
    output = product(torch.ones(1, 32).bfloat16())
    assert output.untyped_storage().nbytes() == output.nbytes


def test_a_target_of_other_weights_stays_in_bfloat16() -> None:
    target = small_target()
    target.model.bfloat16()
    assert not target.enable_int4() and target.dtype == "bfloat16"


def test_a_mixture_of_experts_does_not_run_as_int4() -> None:
    """Experts run in transformers, where a row's bits may depend on other rows."""
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(
        vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)).bfloat16()
    for name, value in model.named_parameters():
        if "self_attn" in name and value.ndim == 2:
            value.data.copy_(on_levels(lowest=-0.25, outputs=value.shape[0], inputs=value.shape[1]))
    assert not TorchTarget(model, ()).enable_int4()


@pytest.mark.parametrize("finer", [(), ("lm_head", "v_proj", "layers.1.mlp.down_proj")], ids=["on levels", "mixed"])
@torch.inference_mode()
def test_a_tree_has_the_same_bits_as_each_path_alone(finer: Sequence[str]) -> None:
    target = int4_target(finer)
    random = np.random.default_rng(0)
    tokens, parents = random.integers(0, VOCABULARY, 40).astype(np.int32), np.zeros(40, np.int32)
    parents[1:] = [random.integers(max(0, node - 6), node) for node in range(1, 40)]
    tree = DraftTree(tokens, parents, np.zeros(40, np.float32), np.ones(40, np.int32))
    prompt = random.integers(0, VOCABULARY, PROMPT).tolist()
    target.prefill(prompt, 40, Sampling())
    in_a_tree = target.verify_batch([target], [pack(tree, PROMPT)])[0].logprobs
    for node in (1, 7, 20, 39):
        target.prefill(prompt, 40, Sampling())
        for depth, step in enumerate(path_to(parents, node)):
            root = DraftTree(tokens[[step]], parents[:1], tree.logprobs[:1], tree.drafters[:1])
            (alone,) = target.verify_batch([target], [pack(root, PROMPT + depth)])
            target.commit(np.zeros(1, np.int32))
        assert alone.logprobs[0] == in_a_tree[node]


def int4_target(finer: Sequence[str] = (), taps: Sequence[int] = ()) -> TorchTarget:
    """Return a random target with layer weights on 16 levels and an output head on 255, except the layers in ``finer``;
    most sums have many inputs."""
    torch.manual_seed(0)
    config = small_config()
    config.hidden_size, config.head_dim, config.intermediate_size = 64, 16, 2048
    model = Qwen3ForCausalLM(config).bfloat16()
    for name, value in model.named_parameters():
        if value.ndim == 2 and not any(part in name for part in finer):
            value.data.copy_(on_levels(lowest=-0.25, outputs=value.shape[0], inputs=value.shape[1]))
    if "lm_head" not in finer:
        model.lm_head.weight = nn.Parameter(on_eight_bit_levels(*model.lm_head.weight.shape))
    target = TorchTarget(model, taps)
    assert target.enable_int4() and target.dtype == INT4
    return target
