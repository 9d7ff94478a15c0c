"""The product of a few rows with weights of 4 or 8 bits, compiled by numba.

A pass over a few rows is limited by reading the weights, then by unpacking them, so each unpacked weight serves up to
four rows. Inputs become 16-bit integers that share an exponent per group of 32: exact down to 2⁻⁷ of the group's
largest, and closer than bfloat16's own rounding below that. So sums within a group are exact in any order. Groups are
added in float32 in a fixed order, by fused multiply-adds. A row's bits therefore depend neither on the rows beside it
nor on the processor or the number of threads.

A vector holds ``LANES`` outputs with two inputs each. Torch's OpenMP threads take one tile of outputs after another.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import carray, cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor
from torch.nn.functional import pad

from engine.models.compiled import (
    BF16,
    F32,
    GOMP_PARALLEL,
    I32,
    I64,
    bf16_to_f32,
    cached_compile,
    compiled,
    f32_to_bf16,
    next_item,
    pointer,
    run_on_threads,
)
from engine.models.packed_linear import BF16_RELATIVE_ERROR, GROUP, LANES, Levels

TILE = 3  # vectors of outputs that a thread computes together; with four rows, their sums fill most registers
LINE_BYTES = 4 * LANES  # of two 16-bit words, each packing several numbers, for each of ``LANES`` outputs
SCALES_BYTES = 4 * LANES  # of a group's steps and middles: bfloat16, or, with 8 bits, steps alone in float32
VECTOR_BYTES = 4 * LANES  # of sums
INPUTS_BYTES, INPUT_SCALE_BYTES = 2 * GROUP, 8  # of a group's integers, and of their scale and sum
# The argument of ``compute_tiles``; four of its numbers are addresses.
PRODUCT_TASK = np.dtype([(name, np.int64) for name in (
    "next_tile", "weights", "results", "rows", "groups", "outputs", "integers", "scales", "bits")])
INFINITY_BITS = 0x7F80  # of bfloat16
NAN_BITS = 0x7FC00000
MAX_STEPS = 18  # steps that a group's largest weight allows
MIN_EXPONENT = 15  # of a group's shared power of two, biased; with a lower one, factors would not be finite

I16, FLOAT = ir.IntType(16), ir.FloatType()
PAIRS, HALVES = ir.VectorType(I16, 2 * LANES), ir.VectorType(I16, LANES)
PRODUCTS, INTEGERS = ir.VectorType(I32, 2 * LANES), ir.VectorType(I32, LANES)
FLOATS = ir.VectorType(FLOAT, LANES)
BYTE_ADDRESS = ir.IntType(8).as_pointer()

if GOMP_PARALLEL is None:
    raise ImportError("torch's OpenMP is not GNU's.")


def load(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    """Load a value of an LLVM type."""
    pointer = builder.inttoptr(builder.add(address, I64(offset)), kind.as_pointer())
    return builder.load(pointer, align=2)


def broadcast(builder: Any, value: Any) -> Any:
    """Return a vector of ``LANES`` copies of a value."""
    vector = ir.VectorType(value.type, LANES)
    first = builder.insert_element(vector(ir.Undefined), value, I32(0))
    return builder.shuffle_vector(first, first, INTEGERS([0] * LANES))


def multiply_add_pairs(builder: Any, first: Any, second: Any) -> Any:
    """Multiply and add neighbouring pairs, in the form that LLVM compiles to one instruction."""
    products = builder.mul(builder.sext(first, PRODUCTS), builder.sext(second, PRODUCTS))
    even, odd = (builder.shuffle_vector(products, products, INTEGERS(list(range(start, 2 * LANES, 2))))
                 for start in (0, 1))
    return builder.add(even, odd)


def generate_group(builder: Any, bits: int, rows: int, arguments: Sequence[Any]) -> None:
    """Generate the code of ``add_group`` for a number of bits and of rows."""
    weights, inputs, scales, sums, groups = arguments
    row_inputs = [builder.add(inputs, builder.mul(groups, I64(INPUTS_BYTES * row))) for row in range(rows)]
    row_scales = [builder.add(scales, builder.mul(groups, I64(INPUT_SCALE_BYTES * row))) for row in range(rows)]
    # packed numbers are offset by the middle one, so its products are subtracted first
    totals = [load(builder, scale, 4, I32) for scale in row_scales]
    start = [broadcast(builder, builder.mul(total, I32(-(1 << (bits - 1))))) for total in totals]
    dots = [[first] * TILE for first in start]
    per_word, block_bytes = 16 // bits, GROUP * LANES * bits // 8 + SCALES_BYTES
    fma = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(FLOATS, [FLOATS] * 3), f"llvm.fma.v{LANES}f32")
    prefetch = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [BYTE_ADDRESS, I32, I32, I32]), "llvm.prefetch.p0")
    for line in range(GROUP // 2 // per_word):
        offsets = [block_bytes * block + LINE_BYTES * line for block in range(TILE)]
        words = [load(builder, weights, offset, PAIRS) for offset in offsets]
        if bits == 8:  # prefetch the next group: the processor's own prefetching is too late with two or three rows
            for offset in offsets:
                ahead = builder.add(weights, I64(offset + TILE * block_bytes))
                builder.call(prefetch, [builder.inttoptr(ahead, BYTE_ADDRESS), I32(0), I32(3), I32(1)])
        for place in range(per_word):
            shifted = [builder.lshr(word, PAIRS([bits * place] * 2 * LANES)) for word in words]
            numbers = [builder.and_(word, PAIRS([(1 << bits) - 1] * 2 * LANES)) for word in shifted]
            for row in range(rows):
                pair = load(builder, row_inputs[row], 4 * (per_word * line + place), I32)
                both = builder.bitcast(broadcast(builder, pair), PAIRS)
                dots[row] = [builder.add(dot, multiply_add_pairs(builder, number, both))
                             for dot, number in zip(dots[row], numbers, strict=True)]
    for row in range(rows):
        scale = broadcast(builder, load(builder, row_scales[row], 0, FLOAT))
        total = builder.fmul(builder.sitofp(broadcast(builder, totals[row]), FLOATS), scale)
        for block in range(TILE):
            at, offset = block_bytes * (block + 1) - SCALES_BYTES, VECTOR_BYTES * (row * TILE + block)
            dot = builder.fmul(builder.sitofp(dots[row][block], FLOATS), scale)
            added = load(builder, sums, offset, FLOATS)
            if bits == 8:
                added = builder.call(fma, [load(builder, weights, at, FLOATS), dot, added])
            else:
                steps, middles = (builder.bitcast(builder.shl(
                    builder.zext(load(builder, weights, place, HALVES), INTEGERS),
                    INTEGERS([16] * LANES)), FLOATS) for place in (at, at + SCALES_BYTES // 2))
                added = builder.call(fma, [middles, total, builder.call(fma, [steps, dot, added])])
            builder.store(added, builder.inttoptr(builder.add(sums, I64(offset)), FLOATS.as_pointer()), align=4)


@intrinsic  # type: ignore[untyped-decorator]
def add_group(_context: Any, case: Any, weights: Any, inputs: Any, scales: Any, sums: Any, groups: Any) -> Any:
    """Add one group's products of up to four rows and a tile of outputs to their sums (rows, tile, lanes).

    Args:
        case: 8 × bits of a number + rows.
        weights: address.
        inputs: address of the first row's integers.
        scales: address of their scale and sum.
        sums: address.
        groups: number of groups of a row.
    """
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        case, *others = arguments
        end = builder.append_basic_block()
        switch = builder.switch(case, end)
        for bits, rows in ((bits, rows) for bits in (4, 8) for rows in (1, 2, 3, 4)):
            block = builder.append_basic_block()
            switch.add_case(I64(8 * bits + rows), block)
            with builder.goto_block(block):
                generate_group(builder, bits, rows, others)
                builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()
    return types.void(case, weights, inputs, scales, sums, groups), generate


@cached_compile(cfunc("void(intp)", cache=True))
def compute_tiles(address: Any) -> None:
    """Compute tiles of outputs of the ``PRODUCT_TASK`` at an address until none is left."""
    task = carray(pointer(address), (1,), PRODUCT_TASK)[0]
    rows, groups, outputs, bits = task.rows, task.groups, task.outputs, task.bits
    width, block_bytes = TILE * LANES, GROUP * LANES * bits // 8 + SCALES_BYTES
    result = carray(pointer(task.results), (rows, outputs), BF16)
    sums, nearest = np.empty((4, width), F32), np.empty(width, BF16)
    tile = next_item(address)
    while tile * width < outputs:
        first, weights = tile * width, task.weights + block_bytes * TILE * groups * tile
        for row in range(0, rows, 4):
            sums[:] = 0
            count = min(rows - row, 4)
            for group in range(groups):
                before = groups * row + group
                add_group(8 * bits + count, weights + block_bytes * TILE * group, task.integers + INPUTS_BYTES * before,
                          task.scales + INPUT_SCALE_BYTES * before, sums.ctypes.data, groups)
            for i in range(count):
                for d in range(width):
                    nearest[d] = f32_to_bf16(sums[i, d])
                for d in range(min(width, outputs - first)):
                    result[row + i, first + d] = nearest[d]
        tile = next_item(address)


@compiled("void(i8, i8, i8, i8, i8, UniTuple(i8, 4), i8)")
def multiply(start: Any, on_thread: Any, inputs: Any, weights: Any, results: Any, shape: Any, threads: Any) -> None:
    """Write the product of inputs (rows, groups × 32) with the weights into results (rows, outputs)."""
    rows, groups, outputs, bits = shape
    x = carray(pointer(inputs), (rows, groups, GROUP), BF16)
    integers, scales = np.empty((rows, groups, GROUP), np.int16), np.empty((rows, groups, 2), np.int32)
    for i in range(rows):
        for group in range(groups):
            largest: Any = BF16(0)
            for d in range(GROUP):
                largest = max(largest, x[i, group, d] & BF16(INFINITY_BITS))
            exponent: Any = max(np.int32(largest >> 7), MIN_EXPONENT)
            factor = np.uint32((254 + 14 - exponent) << 23).view(F32)  # from 2^(e − 127) to 2¹⁴
            total = np.int32(0)
            for d in range(GROUP):
                integers[i, group, d] = np.int16(np.rint(bf16_to_f32(x[i, group, d]) * factor))
                total += integers[i, group, d]
            # an infinite or NaN input makes its row NaN
            scales[i, group, 0] = (exponent - 14) << 23 if largest < INFINITY_BITS else NAN_BITS
            scales[i, group, 1] = total
    task = np.array([0, weights, results, rows, groups, outputs, 0, 0, bits])
    task[6], task[7] = integers.ctypes.data, scales.ctypes.data  # unsigned, unlike the others
    run_on_threads(start, on_thread, task.ctypes.data, threads)
    task[:2] = len(integers), len(scales)  # keeps the arrays alive until here: numba frees them after last use


@compiled("b1(i8, i8, i8, i8)")
def find_levels(weights: Any, numbers: Any, steps: Any, groups: Any) -> Any:
    """Write each weight's number, 1 to 255, and each group's step; return False if a group has no exact step."""
    weight = carray(pointer(weights), (groups, GROUP), BF16)
    number, step = carray(pointer(numbers), (groups, GROUP), np.uint8), carray(pointer(steps), (groups,), F32)
    for group in range(groups):
        largest: Any = BF16(0)
        for d in range(GROUP):
            largest = max(largest, weight[group, d] & BF16(0x7FFF))
        first = F32(bf16_to_f32(largest) / F32(127) * F32(1 - BF16_RELATIVE_ERROR / 2)).view(np.uint32) >> 13
        for candidate in range(MAX_STEPS):
            step[group] = np.uint32((first + candidate) << 13).view(F32)
            inverse = 1 / step[group] if largest else F32(0)
            for d in range(GROUP):
                exact = bf16_to_f32(weight[group, d])
                nearest = np.rint(exact * inverse)
                if not (abs(nearest) <= 127 and bf16_to_f32(f32_to_bf16(nearest * step[group])) == exact):
                    break
                number[group, d] = np.uint8(nearest + 128)
            else:
                break
        else:
            return False
    return True


class CompiledProduct:
    """Multiplies with a weight of 4 or 8 bits."""

    def __init__(self, levels: Levels) -> None:
        outputs, self._groups, _ = levels.numbers.shape
        self._outputs, self._bits = outputs, levels.bits
        missing, per_word = -outputs % (TILE * LANES), 16 // levels.bits
        numbers = pad(levels.numbers.to(torch.uint8), (0, 0, 0, 0, 0, missing))
        # tiles, vectors, lanes, groups; then lines, places in a word, inputs of a pair
        numbers = numbers.view(-1, TILE, LANES, self._groups, GROUP // 2 // per_word, per_word, 2)
        if levels.bits == 4:
            numbers = numbers[..., ::2, :] | numbers[..., 1::2, :] << 4
        words = numbers.permute(0, 3, 1, 4, 2, 6, 5).flatten(3)
        scales = pad(levels.scales, (0, 0, 0, 0, 0, missing)).view(-1, TILE, LANES, self._groups, 8 // levels.bits)
        scales = scales.permute(0, 3, 1, 4, 2).flatten(3).contiguous().view(torch.uint8)
        self._packed = torch.cat([words, scales], -1)

    @staticmethod
    def levels_of(weight: Tensor) -> Levels | None:
        """Find the 8-bit levels of a bfloat16 weight (outputs, inputs), as in blocks of Q8_0.

        Each weight is an integer of at most 127 times its group's step, rounded to bfloat16; the step has float16's
        precision. Returns None if a group has no such step.
        """
        supported = weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and weight.is_contiguous()
        if not supported or weight.shape[1] % GROUP:
            return None
        numbers = torch.empty(len(weight), weight.shape[1] // GROUP, GROUP, dtype=torch.uint8)
        steps = torch.empty(*numbers.shape[:2], 1)
        fits = find_levels(weight.data_ptr(), numbers.data_ptr(), steps.data_ptr(), steps.numel())
        return Levels(numbers, steps, 8) if fits else None

    def __call__(self, inputs: Tensor) -> Tensor:
        """Multiply inputs (rows, inputs) bfloat16: (rows, outputs) bfloat16."""
        if inputs.dtype != torch.bfloat16 or inputs.shape[1:] != (GROUP * self._groups,):
            raise RuntimeError(f"The inputs are {inputs.dtype} of shape {tuple(inputs.shape)}; allowed is "
                               f"torch.bfloat16 of shape (rows, {GROUP * self._groups}).")
        inputs = inputs.contiguous()
        results = inputs.new_empty(len(inputs), self._outputs)
        multiply(GOMP_PARALLEL, compute_tiles.address, inputs.data_ptr(), self._packed.data_ptr(), results.data_ptr(),
                 (len(inputs), self._groups, self._outputs, self._bits), torch.get_num_threads())
        return results
