"""Products over weights that lie as the processor reads them are the products they were, and store nothing twice."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from engine.models.packed_linear import PackedHead, PackedLinear, joined, side_by_side, tiles

ROWS = (1, 2, 16, 17, 33, 65)


def projections(dtype: torch.dtype) -> list[nn.Linear]:
    torch.manual_seed(0)
    return [nn.Linear(64, outputs, dtype=dtype) for outputs in (96, 32, 32)]


def rows_of(rows: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_weights_side_by_side_are_the_modules_own_views_of_one_tensor(dtype: torch.dtype) -> None:
    modules = projections(dtype)
    before = [module.weight.clone() for module in modules]
    whole = side_by_side(modules)
    first = 0
    for module, weight in zip(modules, before, strict=True):
        assert torch.equal(module.weight, weight)
        assert module.weight.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
        assert torch.equal(whole[first:first + len(weight)], weight)
        first += len(weight)
    assert whole.untyped_storage().nbytes() == sum(weight.nbytes for weight in before)


def test_float32_is_stored_input_by_input_and_bfloat16_as_it_was() -> None:
    assert joined([torch.zeros(8, 4), torch.zeros(2, 4)]).stride() == (1, 10)
    assert joined([torch.zeros(8, 4).bfloat16(), torch.zeros(2, 4).bfloat16()]).stride() == (4, 1)


@pytest.mark.parametrize("rows", ROWS)
@torch.inference_mode()
def test_a_product_of_any_number_of_rows_is_the_exact_one(rows: int) -> None:
    modules = projections(torch.float32)
    weight, inputs = side_by_side(modules), rows_of(rows, torch.float32)
    exact = inputs.double() @ weight.double().t()
    torch.testing.assert_close(PackedLinear(weight)(inputs).double(), exact, atol=1e-5, rtol=1e-5)
    for module in modules:  # transformers' own code goes over the same weights
        torch.testing.assert_close(module(inputs), linear(inputs, module.weight.contiguous(), module.bias))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_the_vocabulary_over_a_layout_is_the_heads_own(rows: int, bias: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    head, inputs = nn.Linear(64, 1000, bias=bias, dtype=dtype), rows_of(rows, dtype)
    close = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 2e-2, "rtol": 2e-2}
    product = PackedHead(head)
    torch.testing.assert_close(product(inputs), head(inputs), **close)
    torch.testing.assert_close(product(inputs[None])[0], head(inputs), **close)


def test_a_vocabulary_without_room_for_a_second_one_goes_over_its_own_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.packed_linear.VOCABULARY_BYTES", 1000)
    monkeypatch.setattr("engine.models.packed_linear.by_layout", lambda *_: pytest.fail("there is no layout"))
    with torch.inference_mode():
        PackedHead(nn.Linear(64, 1000))(torch.zeros(17, 64))


def test_only_bfloat16_has_tiles() -> None:
    assert not tiles(torch.zeros(2, 2))
    assert not tiles(torch.zeros(2, 2, dtype=torch.float16))
