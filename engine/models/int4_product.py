"""The product of a few rows with weights of 4 bits, compiled by numba.

A pass over a few rows waits for the weights, and after that for their unpacking, so each weight that is read and
unpacked serves up to four rows. Inputs become integers of 16 bits that share a power of two in each group of 32: exact
down to 2⁻⁷ of the group's largest input, and nearer than bfloat16's own rounding below. Sums within a group are then
sums of integers, which are exact in any order. Groups are added up in float32 one after another, by fused
multiply-adds. So a row's bits depend neither on the rows beside it nor on the processor or its number of threads.

A vector holds ``LANES`` outputs and two inputs of each. Vectors are those of LLVM, which splits them into what the
processor has. The threads are those of torch's OpenMP, and each takes the next tile of outputs when it is done with
one.
"""

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
    BITS,
    F32,
    GOMP_PARALLEL,
    I32,
    I64,
    compiled,
    next_item,
    pointer,
    rounded,
    run_on_threads,
    widened,
)
from engine.models.packed_linear import GROUP, LANES, MIDDLE, Levels

TILE = 3  # vectors of outputs that a thread computes together; with four rows, their sums fill most registers
PER_WORD = 4  # numbers in 16 bits
LINE = 2 * LANES * PER_WORD // 2  # bytes of ``PER_WORD`` numbers for each pair of inputs of ``LANES`` outputs
LINES = GROUP // 2 // PER_WORD  # of a group
NUMBERS, SCALES = LINE * LINES, 2 * LANES  # bytes of a group's numbers, and of its steps or middles
BLOCK = NUMBERS + 2 * SCALES  # bytes of a group of ``LANES`` outputs
VECTOR = 4 * LANES  # bytes of sums
MAX_BITS = 0x7F80  # of infinity in bfloat16: the exponent's bits
NAN_BITS = 0x7FC00000
MIN_EXPONENT = 15  # of a group's shared power of two, as it is stored: with a lower one, powers would not be finite

I16, FLOAT = ir.IntType(16), ir.FloatType()
PAIRS, HALVES = ir.VectorType(I16, 2 * LANES), ir.VectorType(I16, LANES)
PRODUCTS, INTEGERS = ir.VectorType(I32, 2 * LANES), ir.VectorType(I32, LANES)
FLOATS = ir.VectorType(FLOAT, LANES)

if GOMP_PARALLEL is None:
    raise ImportError("torch's OpenMP is not GNU's.")


def load(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    """The value of an LLVM type at an address."""
    place = builder.inttoptr(builder.add(address, I64(offset)), kind.as_pointer())
    return builder.load(place, align=2)


def repeated(builder: Any, value: Any) -> Any:
    """A vector of ``LANES`` times the same value."""
    vector = ir.VectorType(value.type, LANES)
    first = builder.insert_element(vector(ir.Undefined), value, I32(0))
    return builder.shuffle_vector(first, first, INTEGERS([0] * LANES))


def multiplied_pairs(builder: Any, first: Any, second: Any) -> Any:
    """The sums of each two products, as LLVM recognises it for one instruction."""
    products = builder.mul(builder.sext(first, PRODUCTS), builder.sext(second, PRODUCTS))
    even, odd = (builder.shuffle_vector(products, products, INTEGERS(list(range(start, 2 * LANES, 2))))
                 for start in (0, 1))
    return builder.add(even, odd)


def add_group(rows: int) -> Any:
    """A function for numba that adds one group's products of ``rows`` rows and a tile of outputs to their sums (rows,
    tile, lanes). It takes addresses: of the weights, of the first row's integers, of its scale and their sum, and of
    the sums; and how many bytes lie between two rows' integers and scales."""
    @intrinsic  # type: ignore[untyped-decorator]
    def function(_context: Any, weights: Any, inputs: Any, scales: Any, sums: Any, input_bytes: Any,
                 scale_bytes: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            weights, inputs, scales, sums, input_bytes, scale_bytes = arguments
            by_row = [builder.add(inputs, builder.mul(input_bytes, I64(row))) for row in range(rows)]
            scale_of = [builder.add(scales, builder.mul(scale_bytes, I64(row))) for row in range(rows)]
            # numbers count from ``MIDDLE``, so its products are taken off beforehand
            totals = [load(builder, scale, 4, I32) for scale in scale_of]
            start = [repeated(builder, builder.mul(total, I32(-MIDDLE))) for total in totals]
            dots = [[first] * TILE for first in start]
            for line in range(LINES):
                words = [load(builder, weights, BLOCK * block + LINE * line, PAIRS) for block in range(TILE)]
                for place in range(PER_WORD):
                    shifted = [builder.lshr(word, PAIRS([4 * place] * 2 * LANES)) for word in words]
                    numbers = [builder.and_(word, PAIRS([15] * 2 * LANES)) for word in shifted]
                    for row in range(rows):
                        pair = load(builder, by_row[row], 4 * (PER_WORD * line + place), I32)
                        both = builder.bitcast(repeated(builder, pair), PAIRS)
                        dots[row] = [builder.add(dot, multiplied_pairs(builder, number, both))
                                     for dot, number in zip(dots[row], numbers, strict=True)]
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(FLOATS, [FLOATS] * 3), f"llvm.fma.v{LANES}f32")
            for row in range(rows):
                scale = repeated(builder, load(builder, scale_of[row], 0, FLOAT))
                total = builder.fmul(builder.sitofp(repeated(builder, totals[row]), FLOATS), scale)
                for block in range(TILE):
                    steps, middles = (builder.bitcast(builder.shl(
                        builder.zext(load(builder, weights, BLOCK * block + offset, HALVES), INTEGERS),
                        INTEGERS([16] * LANES)), FLOATS) for offset in (NUMBERS, NUMBERS + SCALES))
                    offset = VECTOR * (row * TILE + block)
                    dot = builder.fmul(builder.sitofp(dots[row][block], FLOATS), scale)
                    added = builder.call(fma, [steps, dot, load(builder, sums, offset, FLOATS)])
                    place = builder.inttoptr(builder.add(sums, I64(offset)), FLOATS.as_pointer())
                    builder.store(builder.call(fma, [middles, total, added]), place, align=4)
            return context.get_dummy_value()
        return types.void(weights, inputs, scales, sums, input_bytes, scale_bytes), generate
    return function


add_one_row, add_two_rows, add_three_rows, add_four_rows = (add_group(rows) for rows in (1, 2, 3, 4))


@cfunc("void(intp)", cache=True)  # type: ignore[untyped-decorator]
def compute_tiles(arguments: Any) -> None:
    """Compute tiles of outputs until none is left. At the address stand a counter of tiles and ``multiply``'s numbers,
    the integers' address and the scales'."""
    numbers = carray(pointer(arguments), (8,), np.int64)
    weights, results, rows, groups, outputs = numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
    width = TILE * LANES
    result = carray(pointer(results), (rows, outputs), BITS)
    sums, nearest = np.empty((4, width), F32), np.empty(width, BITS)
    address = sums.ctypes.data
    input_bytes, scale_bytes = 2 * GROUP * groups, 8 * groups
    tile = next_item(arguments)
    while tile * width < outputs:
        first, weight = tile * width, weights + BLOCK * TILE * groups * tile
        for row in range(0, rows, 4):
            sums[:] = 0
            count = min(rows - row, 4)
            for group in range(groups):
                place = weight + BLOCK * TILE * group
                inputs = numbers[6] + input_bytes * row + 2 * GROUP * group
                scales = numbers[7] + scale_bytes * row + 8 * group
                if count == 1:
                    add_one_row(place, inputs, scales, address, input_bytes, scale_bytes)
                elif count == 2:
                    add_two_rows(place, inputs, scales, address, input_bytes, scale_bytes)
                elif count == 3:
                    add_three_rows(place, inputs, scales, address, input_bytes, scale_bytes)
                else:
                    add_four_rows(place, inputs, scales, address, input_bytes, scale_bytes)
            for i in range(count):
                for d in range(width):
                    nearest[d] = rounded(sums[i, d])
                for d in range(min(width, outputs - first)):
                    result[row + i, first + d] = nearest[d]
        tile = next_item(arguments)


@compiled("void(i8, i8, i8, i8, i8, UniTuple(i8, 3), i8)")
def multiply(start: Any, task: Any, inputs: Any, weights: Any, results: Any, shape: Any, threads: Any) -> None:
    """Write the product with inputs (rows, groups × 32) into results (rows, outputs)."""
    rows, groups, outputs = shape
    x = carray(pointer(inputs), (rows, groups, GROUP), BITS)
    integers, scales = np.empty((rows, groups, GROUP), np.int16), np.empty((rows, groups, 2), np.int32)
    for i in range(rows):
        for group in range(groups):
            largest: Any = BITS(0)
            for d in range(GROUP):
                largest = max(largest, x[i, group, d] & BITS(MAX_BITS))
            exponent: Any = max(np.int32(largest >> 7), MIN_EXPONENT)
            factor = np.uint32((254 + 14 - exponent) << 23).view(F32)  # from 2^(e − 127) to 2¹⁴
            total = np.int32(0)
            for d in range(GROUP):
                integers[i, group, d] = np.int16(np.rint(widened(x[i, group, d]) * factor))
                total += integers[i, group, d]
            # a group that is not finite makes its row NaN
            scales[i, group, 0] = (exponent - 14) << 23 if largest < MAX_BITS else NAN_BITS
            scales[i, group, 1] = total
    arguments = np.array([0, weights, results, rows, groups, outputs, 0, 0])
    arguments[6], arguments[7] = integers.ctypes.data, scales.ctypes.data  # unsigned, unlike the others
    run_on_threads(start, task, arguments.ctypes.data, threads)
    arguments[:2] = len(integers), len(scales)  # numba frees an array when it is used for the last time


class CompiledInt4:
    """The product with a weight of 4 bits."""

    def __init__(self, levels: Levels) -> None:
        outputs, self._groups, _ = levels.numbers.shape
        self._outputs = outputs
        missing = -outputs % (TILE * LANES)
        numbers = pad(levels.numbers.to(torch.int16), (0, 0, 0, 0, 0, missing))
        # tiles, vectors, lanes, groups; then lines, places in a word, inputs of a pair
        numbers = numbers.view(-1, TILE, LANES, self._groups, LINES, PER_WORD, 2).permute(0, 3, 1, 4, 2, 6, 5)
        words = (numbers << torch.arange(0, 16, 4, dtype=torch.int16)).sum(-1, dtype=torch.int16).flatten(3)
        scales = pad(levels.scales, (0, 0, 0, 0, 0, missing)).view(-1, TILE, LANES, self._groups, 2)
        self._packed = torch.cat([words, scales.permute(0, 3, 1, 4, 2).flatten(3).view(torch.int16)], -1).contiguous()

    @property
    def nbytes(self) -> int:
        """The bytes that it holds."""
        return self._packed.nbytes

    def __call__(self, inputs: Tensor) -> Tensor:
        """The product with inputs (rows, inputs) bfloat16: (rows, outputs) bfloat16."""
        inputs = inputs.contiguous()
        results = inputs.new_empty(len(inputs), self._outputs)
        multiply(GOMP_PARALLEL, compute_tiles.address, inputs.data_ptr(), self._packed.data_ptr(), results.data_ptr(),
                 (len(inputs), self._groups, self._outputs), torch.get_num_threads())
        return results
