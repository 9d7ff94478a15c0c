"""What a layer computes between its products, compiled by numba for a few rows on a CPU.

A pass of one row over a small model spends more time in calls to torch than in arithmetic. Here three functions do what
takes torch about forty calls a layer. They give the bits that ``layers.py`` gives, so either may read a text that the
other goes on with: sums are in float64, whose order does not show once they are rounded, and all else is computed value
by value with the same roundings. Functions get the addresses of tensors, since a tensor as a numpy array costs more
than the work on it. Attention runs on the threads of torch's OpenMP, the rest on one.
"""

import ctypes
from collections.abc import Callable, Sequence
from hashlib import sha256
from math import factorial, inf, isnan, log, sqrt
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic
from torch import Tensor
from torch.nn.functional import silu

from engine.models.layers import GatedMlp, Layer, Norm, Rotation
from engine.models.rows import PassPart

BITS, F32, F64 = np.uint16, np.float32, np.float64
BYTES = 2  # of a bfloat16
I32, I64 = ir.IntType(32), ir.IntType(64)
# torch's own OpenMP, so that both share their threads; None if it is not GNU's
GOMP_PARALLEL = ctypes.cast(getattr(ctypes.CDLL(torch._C.__file__), "GOMP_parallel", 0), ctypes.c_void_p).value
ITEM_ROWS = 4  # that a thread attends for together: it widens each key and value once for all of them
MIN_THREADED_SCORES = 512  # rows × slots from which threads share the attention; not yet measured on an idle machine

LOG2_E, LN2 = 1 / log(2), log(2)
LN2_HIGH = LN2 - LN2 % 2.0**-32  # exact if multiplied by a power of two's exponent
LN2_LOW = 1.9082149292705877e-10  # the rest of ln 2
INTEGER_SHIFT = 1.5 * 2.0**52  # added to a number, it rounds to integers
EXPONENTIAL = tuple(1 / factorial(n) for n in range(13, -1, -1))  # the series' coefficients, enough up to ln 2 ÷ 2
MIN_EXPONENT = -700  # e to the power of less counts as 0
# The files whose functions and constants compiled functions of other files contain.
COMPILED_IN = tuple(Path(__file__).with_name(name) for name in ("compiled.py", "level_product.py", "packed_linear.py"))
Function = TypeVar("Function", bound=Callable[..., Any])


def stored(compile_or_load: Callable[[Function], Any]) -> Callable[[Function], Any]:
    """Apply a decorator of numba that compiles a function when it is defined, or loads it from where an earlier process
    left it."""
    def decorator(function: Function) -> Any:
        # The name under which it is stored: numba notices changes of the function's own file, but not of these.
        digest = sha256(b"".join(file.read_bytes() for file in COMPILED_IN)).hexdigest()
        function.__qualname__ += f"_{digest[:16]}"
        try:
            return compile_or_load(function)
        except Exception:  # a stored result that is damaged raises whatever pickle, LLVM or numba then does
            FunctionCache(function).flush()
            return compile_or_load(function)
    return decorator


def compiled(signature: str, **options: Any) -> Callable[[Function], Function]:
    """``stored``, for a function that other threads of Python run beside."""
    return stored(njit(signature, cache=True, nogil=True, error_model="numpy", **options))


def _pointer(_context: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)
    return types.voidptr(address), generate


pointer = intrinsic(_pointer)  # of an address


@intrinsic  # type: ignore[untyped-decorator]
def next_item(_context: Any, counter: Any) -> Any:
    """The number at an address, which is then one higher for whichever thread asks next."""
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.atomic_rmw("add", place, I64(1), "monotonic")
    return types.int64(counter), generate


@intrinsic  # type: ignore[untyped-decorator]
def run_on_threads(_context: Any, start: Any, task: Any, argument: Any, threads: Any) -> Any:
    """Call GNU's OpenMP, whose ``GOMP_parallel`` is at ``start``: each thread calls the task with the argument."""
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        start, task, argument, threads = arguments
        kind = ir.FunctionType(ir.VoidType(), [I64, I64, I32, I32])
        builder.call(builder.inttoptr(start, kind.as_pointer()),
                     [task, argument, builder.trunc(threads, I32), I32(0)])
        return context.get_dummy_value()
    return types.void(start, task, argument, threads), generate


@compiled("f4(u2)")
def widened(bits: Any) -> Any:
    """The number of a bfloat16's bits."""
    return np.uint32(np.uint32(bits) << 16).view(F32)


@compiled("u2(f4)")
def rounded(number: Any) -> Any:
    """The bits of the nearest bfloat16, the even one of two."""
    bits = F32(number).view(np.uint32)
    nearest = BITS((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16)
    return BITS(0x7FC0) if isnan(number) else nearest


@compiled("f8(f8[::1], f8[::1])", fastmath={"reassoc", "contract"})
def dot(first: Any, second: Any) -> Any:
    """The sum of the products of two vectors, in any order."""
    total = 0.0
    for i in range(len(first)):
        total += first[i] * second[i]
    return total


@compiled("void(i8, i8, i8, f8, i8, UniTuple(i8, 4))")
def normalize(residual: Any, states: Any, scales: Any, offset: Any, results: Any, shape: Any) -> None:
    """Add a residual, if not 0, to states (rows, stride), and write the root mean square norm of their first heads,
    with scales (heads, size); see ``layers.Norm``. The results may take the place of the states."""
    rows, stride, heads, size = shape
    x, scale = carray(pointer(states), (rows, stride), BITS), carray(pointer(scales), (heads * size,), F32)
    result, wide = carray(pointer(results), (rows, stride), BITS), np.empty(size, F64)
    added = carray(pointer(residual), (rows, stride), BITS)
    for i in range(rows):
        if residual:
            for d in range(stride):
                x[i, d] = rounded(widened(x[i, d]) + widened(added[i, d]))
        for first in range(0, heads * size, size):
            for d in range(size):
                wide[d] = widened(x[i, first + d])
            length = F32(sqrt(dot(wide, wide) + offset))
            for d in range(size):
                result[i, first + d] = rounded(F32(wide[d]) / length * scale[first + d])


@compiled("void(i8, i8, i8, i8, i8)")
def gate(gates_ups: Any, activations: Any, results: Any, rows: Any, size: Any) -> None:
    """Activated gates × ups, both (rows, size) side by side. ``activations`` holds SiLU of each bfloat16."""
    x, table = carray(pointer(gates_ups), (rows, 2, size), BITS), carray(pointer(activations), (1 << 16,), BITS)
    result = carray(pointer(results), (rows, size), BITS)
    for i in range(rows):
        for d in range(size):
            result[i, d] = rounded(widened(table[x[i, 0, d]]) * widened(x[i, 1, d]))


@compiled("void(u2[:, :, ::1], u2[:, ::1], u2[:, ::1], i8)")
def rotate(states: Any, cosines: Any, sines: Any, heads: Any) -> None:
    """Rotate the first heads of states (rows, heads, size) in place, as ``layers.apply_rotary`` does."""
    half = states.shape[2] // 2
    for i in range(len(states)):
        for h in range(heads):
            for d in range(half):
                e = d + half
                left, right = widened(states[i, h, d]), widened(states[i, h, e])
                turned = rounded(left * widened(cosines[i, d])), rounded(right * widened(cosines[i, e]))
                states[i, h, d] = rounded(widened(turned[0]) + right * widened(sines[i, d]))
                states[i, h, e] = rounded(widened(turned[1]) + left * widened(sines[i, e]))


@compiled("f8(f8)", fastmath={"contract"})
def exponential(number: Any) -> Any:
    """Raise e to the power of a number of at most 0, without branches, so that LLVM computes several at once."""
    shifted = number * LOG2_E + INTEGER_SHIFT  # its lowest bits are the nearest integer
    twos = shifted - INTEGER_SHIFT
    rest, power = (number - twos * LN2_HIGH) - twos * LN2_LOW, 0.0
    for coefficient in EXPONENTIAL:
        power = power * rest + coefficient
    bits = F64(power).view(np.int64) + (F64(shifted).view(np.int64) << 52)
    return 0.0 if number < MIN_EXPONENT else np.int64(bits).view(F64)


@compiled("f8(f8[::1])", fastmath={"reassoc", "contract", "nnan", "nsz"})
def largest_of(numbers: Any) -> Any:
    """The largest number, in any order."""
    largest = -inf
    for i in range(len(numbers)):
        largest = max(largest, numbers[i])
    return largest


@compiled("f8(f8[::1])", fastmath={"reassoc", "contract"})
def exponentiate(scores: Any) -> Any:
    """Replace scores by weights, of which the largest is 1, and return the weights' sum."""
    largest, total = largest_of(scores), 0.0
    for k in range(len(scores)):
        scores[k] = exponential(scores[k] - largest)
        total += scores[k]
    return total


@compiled("void(u2[:, ::1], i8, i8, f8[:, ::1])")
def widen_four(slots: Any, first: Any, last: Any, wide: Any) -> None:
    """Write the numbers of four slots. The last slot stands for those behind it, which may hold NaN."""
    for j in range(4):
        for d in range(slots.shape[1]):
            wide[j, d] = widened(slots[min(first + j, last), d])


@compiled("void(f8[:, ::1], u2[:, ::1], i8, f8[:, ::1])", fastmath={"reassoc", "contract"})
def score(queries: Any, keys: Any, last: Any, scores: Any) -> None:
    """Write the products (queries, keys) of queries and keys, four keys at a time."""
    wide = np.empty((4, queries.shape[1]), F64)
    for k in range(0, scores.shape[1], 4):
        widen_four(keys, k, last, wide)
        for q in range(len(queries)):
            a = b = c = e = 0.0
            for d in range(queries.shape[1]):
                a += queries[q, d] * wide[0, d]
                b += queries[q, d] * wide[1, d]
                c += queries[q, d] * wide[2, d]
                e += queries[q, d] * wide[3, d]
            scores[q, k], scores[q, k + 1], scores[q, k + 2], scores[q, k + 3] = a, b, c, e


@compiled("void(f8[:, ::1], u2[:, ::1], i8, f8[:, ::1])", fastmath={"contract"})
def mix(weights: Any, values: Any, last: Any, mixed: Any) -> None:
    """Write the weighted sums (queries, size) of values, four at a time."""
    wide = np.empty((4, mixed.shape[1]), F64)
    mixed[:] = 0
    for k in range(0, weights.shape[1], 4):
        widen_four(values, k, last, wide)
        for q in range(len(mixed)):
            a, b, c, e = weights[q, k], weights[q, k + 1], weights[q, k + 2], weights[q, k + 3]
            for d in range(mixed.shape[1]):
                first = (mixed[q, d] + a * wide[0, d]) + b * wide[1, d]
                mixed[q, d] = (first + c * wide[2, d]) + e * wide[3, d]


@compiled("void(i8)")
def attend_items(arguments: Any) -> None:
    """Attend for a key and value head and up to ``ITEM_ROWS`` rows, one such item after another, until none is left. At
    the address stand a counter of items and what ``attend`` is given."""
    numbers = carray(pointer(arguments), (11,), np.int64)
    rows, query_heads, kv_heads, size, capacity = numbers[5], numbers[6], numbers[7], numbers[8], numbers[9]
    committed, groups, end = numbers[10], query_heads // kv_heads, numbers[10] + rows
    x = carray(pointer(numbers[1]), (rows, query_heads + 2 * kv_heads, size), BITS)
    cache = carray(pointer(numbers[2]), (2, kv_heads, capacity, size), BITS)
    sees = carray(pointer(numbers[3]), (rows, rows), np.uint8)
    result = carray(pointer(numbers[4]), (rows, query_heads, size), BITS)
    item = next_item(arguments)
    while item < kv_heads * -(-rows // ITEM_ROWS):
        first, head = item // kv_heads * ITEM_ROWS, item % kv_heads
        count = min(rows - first, ITEM_ROWS) * groups
        queries, mixed = np.empty((count, size), F64), np.empty((count, size), F64)
        weights, totals = np.empty((count, -(-end // 4) * 4), F64), np.empty(count, F64)
        for q in range(count):
            for d in range(size):
                queries[q, d] = widened(x[first + q // groups, head * groups + q % groups, d]) / sqrt(size)
        score(queries, cache[0, head], end - 1, weights)
        for q in range(count):
            i = first + q // groups
            for j in range(weights.shape[1] - committed):
                if j >= rows or not (sees[i, j] if numbers[3] else j <= i):
                    weights[q, committed + j] = -inf
            totals[q] = exponentiate(weights[q])
        mix(weights, cache[1, head], end - 1, mixed)
        for q in range(count):
            for d in range(size):
                result[first + q // groups, head * groups + q % groups, d] = rounded(F32(mixed[q, d] / totals[q]))
        item = next_item(arguments)


@stored(cfunc("void(intp)", cache=True))
def attend_on_thread(arguments: Any) -> None:
    """``attend_items``, as OpenMP calls it."""
    attend_items(arguments)


@compiled("void(UniTuple(i8, 6), UniTuple(i8, 6), UniTuple(i8, 3))")
def attend(tensors: Any, shape: Any, openmp: Any) -> None:
    """Rotate queries and keys of states (rows, heads, size), write keys and values into the cache's slots behind the
    committed ones, and attend to these and to the rows that each row sees: all up to itself if ``seen`` is 0."""
    states, cosines, sines, slots, seen, results = tensors
    rows, query_heads, kv_heads, size, capacity, committed = shape
    start, task, threads = openmp
    if committed + rows > capacity:
        raise IndexError("The cache has too few slots.")
    x = carray(pointer(states), (rows, query_heads + 2 * kv_heads, size), BITS)
    cache = carray(pointer(slots), (2, kv_heads, capacity, size), BITS)
    rotate(x, carray(pointer(cosines), (rows, size), BITS), carray(pointer(sines), (rows, size), BITS),
           query_heads + kv_heads)
    for i in range(rows):
        for h in range(kv_heads):
            for d in range(size):
                cache[0, h, committed + i, d] = x[i, query_heads + h, d]
                cache[1, h, committed + i, d] = x[i, query_heads + kv_heads + h, d]
    arguments = np.array([0, states, slots, seen, results, rows, query_heads, kv_heads, size, capacity, committed])
    if threads > 1 and rows * (committed + rows) >= MIN_THREADED_SCORES:
        run_on_threads(start, task, arguments.ctypes.data, threads)
    else:
        attend_items(arguments.ctypes.data)
    arguments[0] = 0  # numba frees an array when it is used for the last time


class CompiledLayers:
    """Layers of gated MLPs in bfloat16 on a CPU, of which torch computes the products alone."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        self._activations = silu(torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16))
        self._head_scales = [layer.head_norm.scale[:, 0].contiguous() for layer in layers if layer.head_norm]
        address = self._activations.data_ptr()
        gate(address, address, address, 0, 0)  # raises here, not in a pass, if numba compiles nothing

    def run(self, number: int, hidden: Tensor, rotation: Rotation, parts: Sequence[PassPart]) -> Tensor:
        """Hidden states (rows, hidden size) after a layer: the rows of all texts, one text after another."""
        layer = self.layers[number]
        rows, (cosines, sines) = len(hidden), rotation
        states = layer.inputs(normalized(hidden, layer.first_norm))
        width, outputs = states.shape[1], layer.query_heads * layer.size
        if layer.head_norm is not None:
            heads, address = layer.query_heads + layer.kv_heads, states.data_ptr()
            normalize(0, address, self._head_scales[number].data_ptr(), layer.head_norm.offset, address,
                      (rows, width, heads, layer.size))
        mixed = states.new_empty(rows, outputs)
        openmp = (GOMP_PARALLEL, attend_on_thread.address, torch.get_num_threads()) if GOMP_PARALLEL else (0, 0, 1)
        first = 0
        for part in parts:
            slots, seen, count = part.cache.slots, part.rows.seen, len(part.rows.tokens)
            tensors = (states.data_ptr() + BYTES * first * width, cosines.data_ptr() + BYTES * first * layer.size,
                       sines.data_ptr() + BYTES * first * layer.size,
                       slots.data_ptr() + BYTES * number * slots.stride(0), 0 if seen is None else seen.data_ptr(),
                       mixed.data_ptr() + BYTES * first * outputs)
            shape = (count, layer.query_heads, layer.kv_heads, layer.size, slots.shape[-2], part.cache.length)
            attend(tensors, shape, openmp)
            first += count
        after = layer.out(mixed)
        assert isinstance(layer.mlp, GatedMlp)
        gates_ups = layer.mlp.gate_up(normalized(after, layer.second_norm, hidden.data_ptr()))
        gated = gates_ups.new_empty(rows, gates_ups.shape[1] // 2)
        gate(gates_ups.data_ptr(), self._activations.data_ptr(), gated.data_ptr(), *gated.shape)
        return layer.mlp.down(gated, after)


def normalized(states: Tensor, norm: Norm, residual: int = 0) -> Tensor:
    """What ``norm`` gives for states (rows, hidden size), to which the residual at an address is added before."""
    results, (rows, size) = torch.empty_like(states), states.shape
    normalize(residual, states.data_ptr(), norm.scale.data_ptr(), norm.offset, results.data_ptr(),
              (rows, size, 1, size))
    return results
