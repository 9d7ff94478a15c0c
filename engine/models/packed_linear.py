"""Linear layers with fixed weights, for a few rows: the weights' layout in memory decides their speed.

Projections that read the same input are joined in one tensor, and the modules' parameters become views of it. In
float32 on a CPU the joined tensor is stored input by input: products of 1 to 65 rows take 0.67 to 0.88 of the time with
AVX-512, 0.78 to 0.94 with AVX2. On CPUs with bfloat16 tiles, and for the vocabulary, a copy has the layout of oneDNN's
kernels.

In int4, 4-bit weights are multiplied without unpacking them first, because a pass over a few rows spends its time
reading weights. Many files store an output's weights in groups of 32 with at most 16 evenly spaced levels per group
(Q4_0, Q4_1 and Q4_K of GGUF files); we find the levels in the weights themselves. The product is ``level_product.py``'s
or torch's. Both add up a row in one order, so its bits do not depend on the rows beside it, and the text is exactly
plain decoding's. If numba compiles, the same holds for 8-bit levels (Q8_0). Other weights are multiplied in blocks of a
fixed number of rows, because bfloat16 kernels add up in another order for another number of rows.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

TYPICAL_ROWS = 32  # a layout is chosen for this number of rows, and serves any
MAX_COPIED_BYTES = 16 * 2**20  # a layer's weight larger than this gets no second copy
MAX_COPIED_HEAD_BYTES = 256 * 2**20  # the same of an output head

GROUP = 32  # inputs that share a step and a lowest level
MAX_LEVEL = 15  # levels are numbered from 0
ZERO_POINT = 8  # the level that the kernel counts from
LANES = 16  # the number of outputs has to be a multiple of it
BF16_RELATIVE_ERROR = 2.0**-7  # rounding may move a weight by this fraction of its group's largest one
PACKED_BYTES = 0.5 + 4 / GROUP  # of a weight: its level's number, and its part of the group's scales
ATTENTION_DTYPE = torch.float64  # see ``FusedPass.enable_int4``
MAX_ROUNDING_STEPS = 0.25  # steps; if rounding moved weights further, their levels would be ambiguous


class PackedLinear:
    """``linear`` with a fixed weight (outputs, inputs) and its bias.

    On a CPU with bfloat16 tiles torch reorders the weight in every call. A copy that is reordered once takes 15 to 40 %
    less time and gives the same bits.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, copied: bool | None = None) -> None:
        """``copied``: whether to reorder; by default small weights are."""
        self.weight, self.bias = weight, bias
        if copied is None:
            copied = weight.nbytes <= MAX_COPIED_BYTES and has_bfloat16_kernels(weight)
        self._reordered = reorder_for_onednn(weight) if copied else None
        self._quantised_product: Callable[[Tensor], Tensor] | None = None
        self._block_rows: int | None = None

    def enable_levels(self, rule: "LevelsRule | None" = None, product: "LevelsProduct | None" = None) -> bool:
        """Multiply with the weight on 4-bit or 8-bit levels, if the rule (default: ``levels_of``) finds any; return
        whether it does. ``weight`` then takes on the values that are multiplied with, rounded to bfloat16."""
        levels = (rule or levels_of)(self.weight)
        if levels is None:
            return False
        self._quantised_product, self._reordered = (product or PackedInt4)(levels), None
        if levels.bits == 4:  # 8-bit levels equal the weight
            self.weight.copy_(levels.dense())
        return True

    def make_batch_invariant(self, block_rows: int | None = None) -> None:
        """Make a row's bits independent of the rows beside it: multiply blocks of ``block_rows`` rows, padded by zeros.

        The weight is copied to oneDNN's layout whatever its size: otherwise threads share a block's rows, and some
        processors add up in another order for another number of rows in a thread.
        """
        self._block_rows = block_rows or block_rows_of(self.weight)
        if self._reordered is None and has_bfloat16_kernels(self.weight):
            self._reordered = reorder_for_onednn(self.weight)

    def __call__(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """Multiply inputs (…, inputs): (…, outputs). A ``residual`` (rows, outputs) is added, if inputs are (rows,
        inputs)."""
        if residual is not None and self.bias is None and not residual.is_cpu:
            return torch.addmm(residual, inputs, self.weight.t())
        product = self._multiplied(inputs) if self._block_rows is None else self._in_blocks(inputs, self._block_rows)
        return product if residual is None else product.add_(residual)

    def _in_blocks(self, inputs: Tensor, block_rows: int) -> Tensor:
        rows = inputs.reshape(-1, inputs.shape[-1])
        filled = pad(rows, (0, 0, 0, -len(rows) % block_rows))
        products = [self._multiplied(block) for block in filled.split(block_rows)]
        products[-1] = products[-1][:len(rows) - len(filled) + block_rows]
        # copied even if it is one block: a round keeps its logits, and a view would keep the padding as well
        return torch.cat(products).view(*inputs.shape[:-1], -1)

    def _multiplied(self, inputs: Tensor) -> Tensor:
        if self._quantised_product is not None:
            product = self._quantised_product(inputs)
            return product if self.bias is None else product.add_(self.bias)
        if self._reordered is None:
            return linear(inputs, self.weight, self.bias)
        product = torch.ops.mkldnn._linear_pointwise.default(inputs, self._reordered, self.bias, "none", [], "")
        return product  # type: ignore[no-any-return]


class PackedHead(PackedLinear):
    """The output head, which target and drafters share. The embedding may read its weight row by row, so the weight
    keeps its layout, and products of several rows use a copy."""

    def __init__(self, head: nn.Module) -> None:
        weight: Tensor = head.weight  # type: ignore[assignment]
        self._single_row_uses_original = is_cpu_float32(weight)
        faster = self._single_row_uses_original or has_bfloat16_kernels(weight)
        copied = faster and weight.nbytes <= MAX_COPIED_HEAD_BYTES
        super().__init__(weight, head.bias, copied)  # type: ignore[arg-type]

    def _multiplied(self, inputs: Tensor) -> Tensor:
        if self._single_row_uses_original and inputs.shape[:-1].numel() == 1:  # which is faster
            return linear(inputs, self.weight, self.bias)
        if self._quantised_product is not None:
            return super()._multiplied(inputs.flatten(0, -2)).view(*inputs.shape[:-1], -1)
        return super()._multiplied(inputs)


def is_cpu_float32(weight: Tensor) -> bool:
    """Return whether the weight is in float32 on a CPU."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32


def has_bfloat16_kernels(weight: Tensor) -> bool:
    """Return whether the weight is in bfloat16 on a CPU for which oneDNN has bfloat16 kernels."""
    kernels = torch.ops.mkldnn
    return (weight.device.type == "cpu" and weight.dtype == torch.bfloat16
            and hasattr(kernels, "_is_mkldnn_bf16_supported") and bool(kernels._is_mkldnn_bf16_supported()))


def block_rows_of(weight: Tensor) -> int:
    """Return the block size of batch-invariant products on this processor. By test, every row position of a block of
    that size gives the same bits."""
    if not has_bfloat16_kernels(weight) or not torch.cpu._is_avx512_supported():
        return 1
    if torch.cpu._is_amx_tile_supported():
        return 16
    return 8 if torch.cpu._is_avx512_bf16_supported() else 4


def reorder_for_onednn(weight: Tensor) -> Tensor | None:
    """Copy a weight (outputs, inputs) to the layout of oneDNN's kernels; None if torch was built without them."""
    kernels = torch.ops.mkldnn
    if not hasattr(kernels, "_linear_pointwise"):
        return None
    copy: Tensor = kernels._reorder_linear_weight(weight.detach().contiguous(), TYPICAL_ROWS)
    return copy


def join_weights(weights: Sequence[Tensor]) -> Tensor:
    """Join weights of the same input to one, (all outputs, inputs), in the fastest layout."""
    if is_cpu_float32(weights[0]):
        return torch.cat([weight.t() for weight in weights], 1).t()
    return torch.cat(list(weights))


def join_projections(projections: Sequence[nn.Linear]) -> Tensor:
    """Join the weights of projections that read the same input (all outputs, inputs); theirs become views of it."""
    joined = join_weights([projection.weight.data for projection in projections])
    first = 0
    for projection in projections:
        projection.weight.data = joined[first:first + projection.out_features]
        first += projection.out_features
    return joined


def biases(projections: Sequence[nn.Linear]) -> Tensor | None:
    """Join the biases of the projections (all outputs,); None if they have none."""
    vectors = [projection.bias.data for projection in projections if projection.bias is not None]
    return torch.cat(vectors) if vectors else None


class Levels(NamedTuple):
    """A weight (outputs, inputs) on evenly spaced levels.

    4 bits: middle + (number − 8) × step; numbers (outputs, groups, 32) from 0 to 15, scales (outputs, groups, 2)
    bfloat16 hold step and middle. 8 bits: (number − 128) × step; numbers from 1 to 255, scales (outputs, groups, 1)
    float32.
    """

    numbers: Tensor
    scales: Tensor
    bits: int = 4

    def dense(self) -> Tensor:
        """Return the 4-bit weight (outputs, inputs), rounded to bfloat16."""
        steps, middle = self.scales.float().split(1, -1)
        return torch.addcmul(middle, self.numbers - ZERO_POINT, steps).flatten(1).to(torch.bfloat16)


LevelsRule = Callable[[Tensor], Levels | None]
LevelsProduct = Callable[[Levels], Callable[[Tensor], Tensor]]


class PackedInt4:
    """Multiplies with a 4-bit weight by torch's own kernel."""

    def __init__(self, levels: Levels) -> None:
        self._packed = torch._convert_weight_to_int4pack_for_cpu(levels.numbers.flatten(1).to(torch.int32), 1)
        self._scales = levels.scales.transpose(0, 1).contiguous()

    def __call__(self, inputs: Tensor) -> Tensor:
        """Multiply inputs (rows, inputs) bfloat16: (rows, outputs) bfloat16."""
        return torch._weight_int4pack_mm_for_cpu(inputs, self._packed, GROUP, self._scales)


def levels_of(weight: Tensor) -> Levels | None:
    """Find the 4-bit levels of a weight (outputs, inputs); None if it has none, or if no kernel serves it."""
    if not has_int4_kernel(weight):
        return None
    groups = weight.detach().float().reshape(-1, GROUP)
    numbers, scales, fits = _fit_levels(groups, MAX_LEVEL)  # finds groups that use the lowest and the highest level
    unfitted, count = torch.nonzero(~fits)[:, 0], MAX_LEVEL
    while len(unfitted):
        count -= 1
        if not count:
            return None
        numbers[unfitted], scales[unfitted], fits = _fit_levels(groups[unfitted], count)
        unfitted = unfitted[~fits]
    return Levels(numbers.view(len(weight), -1, GROUP), scales.to(torch.bfloat16).view(len(weight), -1, 2))


def has_int4_kernel(weight: Tensor) -> bool:
    """Return whether a 4-bit kernel serves a weight of this shape and device."""
    return weight.device.type == "cpu" and not weight.shape[1] % GROUP and not weight.shape[0] % LANES


def rounded_levels(weight: Tensor) -> Levels | None:
    """Round a weight (outputs, inputs) to 4-bit levels; None if no kernel serves it.

    A group's levels are evenly spaced from its smallest weight, or 0, to its largest: Q4_K without its search for a
    better step.
    """
    if not has_int4_kernel(weight):
        return None
    groups = weight.detach().float().view(len(weight), -1, GROUP)
    lowest, highest = torch.aminmax(groups, dim=-1, keepdim=True)
    lowest = lowest.clamp_(max=0)
    steps = (highest - lowest).div_(MAX_LEVEL)
    scales = torch.cat([steps, torch.add(lowest, steps, alpha=ZERO_POINT)], -1).to(torch.bfloat16)
    steps, middle = scales.float().split(1, -1)  # as they are multiplied with
    numbers = (groups - middle).div_(steps).nan_to_num_(0).round_().add_(ZERO_POINT).clamp_(0, MAX_LEVEL)
    return Levels(numbers, scales)


def _fit_levels(groups: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Try groups (n, 32) on ``count`` + 1 levels from each group's smallest weight to its largest.

    Returns:
        numbers (n, 32) and scales (n, 2) float32 as in ``Levels``; (n,) bool, whether the group lies on these levels
        within bfloat16's rounding, unambiguously.
    """
    lowest, highest = torch.aminmax(groups, dim=-1, keepdim=True)
    steps = (highest - lowest).div_(count)
    numbers = (groups - lowest).div_(steps).nan_to_num_(0).round_()  # equal weights have no step
    error = torch.addcmul(lowest, numbers, steps).sub_(groups).abs_().amax(-1, keepdim=True)
    slack = torch.maximum(lowest.abs(), highest.abs()).mul_(BF16_RELATIVE_ERROR)
    fits = (error <= slack) & ((slack <= MAX_ROUNDING_STEPS * steps) | (steps == 0))
    return numbers, torch.cat([steps, torch.add(lowest, steps, alpha=ZERO_POINT)], -1), fits[:, 0]
