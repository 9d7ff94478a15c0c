"""Linear layers of a few rows with fixed weights: how a weight lies in memory decides how fast they are.

The modules still own the weights: projections that read the same input are joined in one tensor, and the modules'
parameters become views of it, so that no layer's float32 weight is stored twice. In float32 on a CPU that tensor is
stored input by input instead of output by output: the same product of 1 to 65 rows takes 0.67 to 0.88 of the time with
AVX-512, 0.78 to 0.94 with AVX2 alone. On CPUs with bfloat16 tiles, and for the vocabulary, a copy is laid out in the
order in which oneDNN's kernels read it.

On request, weights of 4 bits are multiplied as such. Many files store each output's weights in groups of 32, and each
group's on at most 16 evenly spaced levels (as in Q4_0, Q4_1 and Q4_K of GGUF files). A pass over a few rows spends its
time reading weights, and 4 bits are a quarter of bfloat16's bytes. The levels are found in the weights themselves,
whatever file they came from. Inputs and steps are in bfloat16, sums in float32. The product is that of
``level_product.py`` or torch's. Either adds up each row in one order, so a row gives the same bits whatever rows are
computed with it, and the text is exactly plain decoding's. If numba compiles, so it is with weights on 8-bit levels (as
in Q8_0, in which files often keep the output head). bfloat16 kernels add up in other orders for other numbers of rows,
so all other weights are multiplied in blocks of a fixed number of rows (``PackedLinear.make_batch_invariant``).
Figures: ``LOG.md``.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

TYPICAL_ROWS = 32  # the number of rows that a layout is chosen for; it serves any number
LAID_OUT_BYTES = 16 * 2**20  # no second copy is held of a layer's weight larger than this
VOCABULARY_BYTES = 256 * 2**20  # nor of an output head larger than this

GROUP = 32  # inputs that share a step and a lowest level
HIGHEST = 15  # levels are numbered from 0
MIDDLE = 8  # the level that the kernel counts from
LANES = 16  # the number of outputs has to be a multiple of it
ROUNDING = 2.0**-7  # of a group's largest weight: how far bfloat16 moves a weight and its group's ends by rounding
PACKED_BYTES = 0.5 + 4 / GROUP  # of a weight: its level's number, and its part of the group's scales
ATTENTION_DTYPE = torch.float64  # beside such weights: see ``FusedPass.enable_int4``
CLEAR = 0.25  # of a step: where rounding moves weights further, one could lie on either of two levels


class PackedLinear:
    """``linear`` with a fixed weight (outputs, inputs) and its bias.

    On a CPU that multiplies bfloat16 tiles, torch lays a weight out anew in each call. Here a copy is laid out once:
    a product takes 15 to 40 % less time and gives the same bits.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias
        self._laid_out = (
            lay_out(weight) if weight.nbytes <= LAID_OUT_BYTES and has_bfloat16_kernels(weight) else None)
        self._by_levels: Callable[[Tensor], Tensor] | None = None
        self._block_rows: int | None = None

    def enable_levels(self, rule: "LevelsRule | None" = None, product: "LevelsProduct | None" = None) -> bool:
        """Multiply with the weight as 4 bits if it is in bfloat16 and the rule, by default ``levels_of``, gives it 16
        levels, or as 8 bits by a rule for those; return whether it does. ``weight`` then takes on the values that are
        multiplied with, rounded. The product is by default torch's, of 4 bits."""
        levels = (rule or levels_of)(self.weight)
        if levels is None:
            return False
        self._by_levels, self._laid_out = (product or PackedInt4)(levels), None
        if levels.bits == 4:  # of 8, levels give the weight back
            self.weight.copy_(levels.dense())
        return True

    def make_batch_invariant(self, block_rows: int | None = None) -> None:
        """Give a row the same bits whatever rows are computed with it: every product has ``block_rows`` rows, by
        default as many as are fast here, and the last one is filled up with zeros.

        The weight is laid out whatever its size. Without that, threads share the rows of a block, and a processor
        without instructions for bfloat16 adds up in another order for another number of rows in a thread.
        """
        self._block_rows = block_rows or block_rows_of(self.weight)
        if self._laid_out is None and has_bfloat16_kernels(self.weight):
            self._laid_out = lay_out(self.weight)

    def __call__(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """The product with inputs (…, inputs): (…, outputs). A ``residual`` (rows, outputs) is added to that of inputs
        (rows, inputs)."""
        if residual is not None and self.bias is None and not residual.is_cpu:
            return torch.addmm(residual, inputs, self.weight.t())
        product = self._multiplied(inputs) if self._block_rows is None else self._in_blocks(inputs, self._block_rows)
        return product if residual is None else product.add_(residual)

    def _in_blocks(self, inputs: Tensor, block_rows: int) -> Tensor:
        rows = inputs.reshape(-1, inputs.shape[-1])
        filled = pad(rows, (0, 0, 0, -len(rows) % block_rows))
        products = [self._multiplied(block) for block in filled.split(block_rows)]
        products[-1] = products[-1][:len(rows) - len(filled) + block_rows]
        # a copy, even of a single block: a round keeps its logits, and with a view it would keep the zeros' too
        return torch.cat(products).view(*inputs.shape[:-1], -1)

    def _multiplied(self, inputs: Tensor) -> Tensor:
        if self._by_levels is not None:
            product = self._by_levels(inputs)
            return product if self.bias is None else product.add_(self.bias)
        if self._laid_out is None:
            return linear(inputs, self.weight, self.bias)
        product = torch.ops.mkldnn._linear_pointwise.default(inputs, self._laid_out, self.bias, "none", [], "")
        return product  # type: ignore[no-any-return]


class PackedHead(PackedLinear):
    """The output head, from states to logits. The embedding may share its weight and reads it row by row, so the weight
    stays as it is, and products of several rows use a copy that is laid out for them. Target and drafters share one
    head."""

    def __init__(self, head: nn.Module) -> None:
        self.weight, self.bias = head.weight, head.bias  # type: ignore[assignment]
        self._alone = is_cpu_float32(self.weight)
        faster = self._alone or has_bfloat16_kernels(self.weight)
        self._laid_out = lay_out(self.weight) if faster and self.weight.nbytes <= VOCABULARY_BYTES else None
        self._by_levels = self._block_rows = None

    def _multiplied(self, inputs: Tensor) -> Tensor:
        if self._alone and inputs.shape[:-1].numel() == 1:  # for a single row the original layout is faster
            return linear(inputs, self.weight, self.bias)
        if self._by_levels is not None:
            return super()._multiplied(inputs.flatten(0, -2)).view(*inputs.shape[:-1], -1)
        return super()._multiplied(inputs)


def is_cpu_float32(weight: Tensor) -> bool:
    """Whether a weight is in float32 on a CPU."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32


def has_bfloat16_kernels(weight: Tensor) -> bool:
    """Whether a weight is in bfloat16 on a CPU for which oneDNN has kernels for that."""
    kernels = torch.ops.mkldnn
    return (weight.device.type == "cpu" and weight.dtype == torch.bfloat16
            and hasattr(kernels, "_is_mkldnn_bf16_supported") and bool(kernels._is_mkldnn_bf16_supported()))


def block_rows_of(weight: Tensor) -> int:
    """How many rows a batch invariant product with a weight has here: with several, each place in a block has to give
    the same bits, which is tested for these kernels; in a block, a single row takes little longer than alone."""
    if not has_bfloat16_kernels(weight) or not torch.cpu._is_avx512_supported():
        return 1
    if torch.cpu._is_amx_tile_supported():
        return 16
    return 8 if torch.cpu._is_avx512_bf16_supported() else 4


def lay_out(weight: Tensor) -> Tensor | None:
    """A copy of a weight (outputs, inputs) in the order in which oneDNN's kernels read it; None if torch was built
    without them."""
    kernels = torch.ops.mkldnn
    if not hasattr(kernels, "_linear_pointwise"):
        return None
    copy: Tensor = kernels._reorder_linear_weight(weight.detach().contiguous(), TYPICAL_ROWS)
    return copy


def join_weights(weights: Sequence[Tensor]) -> Tensor:
    """Weights of the same input as one, (all outputs, inputs), in the layout that its products are fastest in."""
    if is_cpu_float32(weights[0]):
        return torch.cat([weight.t() for weight in weights], 1).t()
    return torch.cat(list(weights))


def join_projections(projections: Sequence[nn.Linear]) -> Tensor:
    """The weights of projections that read the same input as one tensor (all outputs, inputs); each projection's weight
    becomes a view of it."""
    whole = join_weights([projection.weight.data for projection in projections])
    first = 0
    for projection in projections:
        projection.weight.data = whole[first:first + projection.out_features]
        first += projection.out_features
    return whole


def biases(projections: Sequence[nn.Linear]) -> Tensor | None:
    """The biases of the projections as one vector (all outputs,); None if they have none."""
    vectors = [projection.bias.data for projection in projections if projection.bias is not None]
    return torch.cat(vectors) if vectors else None


class Levels(NamedTuple):
    """A weight (outputs, inputs) as middle + (number − 8) × step: numbers (outputs, groups, 32), whole, from 0 to 15;
    scales (outputs, groups, 2) bfloat16, each group's step and middle. Of 8 bits it is (number − 128) × step: numbers
    from 1 to 255; scales (outputs, groups, 1) float32."""

    numbers: Tensor
    scales: Tensor
    bits: int = 4

    def dense(self) -> Tensor:
        """The weight (outputs, inputs) of 4 bits, rounded to bfloat16."""
        steps, middle = self.scales.float().split(1, -1)
        return torch.addcmul(middle, self.numbers - MIDDLE, steps).flatten(1).to(torch.bfloat16)


LevelsRule = Callable[[Tensor], Levels | None]
LevelsProduct = Callable[[Levels], Callable[[Tensor], Tensor]]


class PackedInt4:
    """Torch's product with a weight of 4 bits."""

    def __init__(self, levels: Levels) -> None:
        self._packed = torch._convert_weight_to_int4pack_for_cpu(levels.numbers.flatten(1).to(torch.int32), 1)
        self._scales = levels.scales.transpose(0, 1).contiguous()

    def __call__(self, inputs: Tensor) -> Tensor:
        """The product with inputs (rows, inputs) bfloat16: (rows, outputs) bfloat16."""
        return torch._weight_int4pack_mm_for_cpu(inputs, self._packed, GROUP, self._scales)


def levels_of(weight: Tensor) -> Levels | None:
    """The levels of a weight (outputs, inputs) of any float dtype; None if it does not lie on levels, or if no
    kernel serves its shape or device."""
    if not has_int4_kernel(weight):
        return None
    groups = weight.detach().float().reshape(-1, GROUP)
    numbers, scales, fits = _spanned(groups, HIGHEST)  # enough if all groups use the lowest and the highest level
    left, count = torch.nonzero(~fits)[:, 0], HIGHEST
    while len(left):
        count -= 1
        if not count:
            return None
        numbers[left], scales[left], fits = _spanned(groups[left], count)
        left = left[~fits]
    return Levels(numbers.view(len(weight), -1, GROUP), scales.to(torch.bfloat16).view(len(weight), -1, 2))


def has_int4_kernel(weight: Tensor) -> bool:
    """Whether a kernel multiplies with a weight of this shape and device as 4 bits."""
    return weight.device.type == "cpu" and not weight.shape[1] % GROUP and not weight.shape[0] % LANES


def rounded_levels(weight: Tensor) -> Levels | None:
    """The nearest levels of a weight (outputs, inputs) of any float dtype: those of a group lie evenly between its
    smallest weight, or 0, and its largest, as in a block of Q4_K, without the search for a better step. None if no
    kernel serves its shape or device."""
    if not has_int4_kernel(weight):
        return None
    groups = weight.detach().float().view(len(weight), -1, GROUP)
    lowest, highest = torch.aminmax(groups, dim=-1, keepdim=True)
    lowest = lowest.clamp_(max=0)
    steps = (highest - lowest).div_(HIGHEST)
    scales = torch.cat([steps, torch.add(lowest, steps, alpha=MIDDLE)], -1).to(torch.bfloat16)
    steps, middle = scales.float().split(1, -1)  # as they are multiplied with
    numbers = (groups - middle).div_(steps).nan_to_num_(0).round_().add_(MIDDLE).clamp_(0, HIGHEST)
    return Levels(numbers, scales)


def _spanned(groups: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Groups (n, 32) read as if each spanned ``count`` steps: numbers and scales (n, 2) float32 as in ``Levels``; and
    (n,) bool, whether a group lies on these levels, within bfloat16's rounding and without ambiguity."""
    lowest, highest = torch.aminmax(groups, dim=-1, keepdim=True)
    steps = (highest - lowest).div_(count)
    numbers = (groups - lowest).div_(steps).nan_to_num_(0).round_()  # equal weights have no step
    off = torch.addcmul(lowest, numbers, steps).sub_(groups).abs_().amax(-1, keepdim=True)
    slack = torch.maximum(lowest.abs(), highest.abs()).mul_(ROUNDING)
    fits = (off <= slack) & ((slack <= CLEAR * steps) | (steps == 0))
    return numbers, torch.cat([steps, torch.add(lowest, steps, alpha=MIDDLE)], -1), fits[:, 0]
