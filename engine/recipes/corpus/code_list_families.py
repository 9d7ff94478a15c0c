"""Families of functions over lists of numbers and over rows of numbers."""

from __future__ import annotations

import itertools
import math
import statistics

from engine.recipes.corpus.code_families import Family

_XS = (("xs", "numbers"),)
_TWO = (("xs", "numbers"), ("ys", "others"))
_GRID = (("m", "matrix"),)

LIST_FAMILIES = (
    Family("running_totals", ("running_totals", "running_sum", "prefix_sums", "cumulative"),
           ("returns the running totals of $xs", "returns a list of the partial sums of $xs"), _XS,
           "list[int]",
           (("using a loop", "$total = 0\n$out = []\nfor $item in $xs:\n    $total += $item\n"
             "    $out.append($total)\nreturn $out"),
            ("with a comprehension", "return [sum($xs[: $index + 1]) for $index in range(len($xs))]")),
           lambda v: list(itertools.accumulate(v))),
    Family("product", ("product", "multiply_all", "product_of", "times_all"),
           ("returns the product of $xs", "multiplies all numbers in $xs"), (("xs", "numbers"),), "int",
           (("using a loop", "$total = 1\nfor $item in $xs:\n    $total *= $item\nreturn $total"),
            ("recursively", "if not $xs:\n    return 1\nreturn $xs[0] * ${self}($xs[1:])")), math.prod),
    Family("differences", ("differences", "gaps", "step_sizes", "deltas"),
           ("returns the differences between neighbours in $xs",
            "returns each number minus the one before it in $xs"),
           _XS, "list[int]",
           (("using a loop", "$out = []\nfor $index in range(1, len($xs)):\n"
             "    $out.append($xs[$index] - $xs[$index - 1])\nreturn $out"),
            ("with zip", "return [b - a for a, b in zip($xs, $xs[1:])]")),
           lambda v: [v[i + 1] - v[i] for i in range(len(v) - 1)]),
    Family("neighbour_sums", ("pair_sums", "neighbour_sums", "adjacent_sums"),
           ("returns the sums of neighbours in $xs", "adds each number in $xs to the next one"), _XS,
           "list[int]",
           (("using a loop", "$out = []\nfor $index in range(len($xs) - 1):\n"
             "    $out.append($xs[$index] + $xs[$index + 1])\nreturn $out"),
            ("with zip", "return [a + b for a, b in zip($xs, $xs[1:])]")),
           lambda v: [sum(p) for p in itertools.pairwise(v)]),
    Family("rises", ("count_rises", "rises", "steps_up"),
           ("counts how often a number in $xs is larger than the one before it", "counts the rises in $xs"),
           _XS, "int",
           (("using a loop", "$count = 0\nfor $index in range(1, len($xs)):\n"
             "    if $xs[$index] > $xs[$index - 1]:\n        $count += 1\nreturn $count"),
            ("with zip", "return sum(1 for a, b in zip($xs, $xs[1:]) if b > a)")),
           lambda v: [a < b for a, b in itertools.pairwise(v)].count(True)),
    Family("spread", ("spread", "value_range", "width_of", "extent"),
           ("returns the difference between the largest and the smallest of $xs",
            "returns the maximum minus the "
            "minimum of $xs"), _XS, "int",
           (("in one line", "return max($xs) - min($xs)"),
            ("by sorting", "$out = sorted($xs)\nreturn $out[-1] - $out[0]"),
            ("using a loop", "low = high = $xs[0]\nfor $item in $xs:\n    low = min(low, $item)\n"
             "    high = max(high, $item)\nreturn high - low")),
           lambda v: max(a - b for a in v for b in v)),
    Family("largest", ("find_largest", "biggest", "maximum_of", "peak"),
           ("returns the largest number in $xs without max", "finds the maximum of $xs without calling max"),
           _XS,
           "int",
           (("using a loop",
             "$best = $xs[0]\nfor $item in $xs:\n    if $item > $best:\n        $best = $item\n"
             "return $best"), ("by sorting", "return sorted($xs)[-1]")), max),
    Family("second_largest", ("second_largest", "runner_up", "second_best"),
           ("returns the second largest distinct number in $xs, or 0 if there is none",
            "returns the runner-up among the distinct values of $xs, or 0 if there is none"), _XS, "int",
           (("by sorting", "$out = sorted(set($xs))\nif len($out) < 2:\n    return 0\nreturn $out[-2]"),
            ("by removing the largest", "$out = [$item for $item in $xs if $item != max($xs)]\n"
             "return max($out, default=0)")),
           lambda v: sorted(set(v), reverse=True)[1] if len(set(v)) > 1 else 0),
    Family("index_of_largest", ("index_of_largest", "position_of_max", "where_is_peak"),
           ("returns the index of the first largest number in $xs",
            "finds the position of the maximum in $xs"), _XS,
           "int",
           (("using a loop", "$best = 0\nfor $index in range(len($xs)):\n    if $xs[$index] > $xs[$best]:\n"
             "        $best = $index\nreturn $best"), ("in one line", "return $xs.index(max($xs))")),
           lambda v: next(i for i, x in enumerate(v) if x == max(v))),
    Family("average", ("average", "mean_of", "average_value"),
           ("returns the average of $xs rounded down", "returns the whole part of the mean of $xs"), _XS,
           "int",
           (("using a loop", "$total = 0\nfor $item in $xs:\n    $total += $item\nreturn $total // len($xs)"),
            ("in one line", "return sum($xs) // len($xs)")), lambda v: math.floor(sum(v) / len(v))),
    Family("median", ("median_of", "middle_value", "low_median"),
           ("returns the lower median of $xs",
            "returns the middle value of the sorted $xs, the lower one if two"),
           _XS, "int", (("by sorting", "$out = sorted($xs)\nreturn $out[(len($out) - 1) // 2]"),),
           statistics.median_low),
    Family("clamped", ("clamp_all", "limit_values", "clamp_to_${low}_${high}"),
           ("returns $xs with each number kept between $low and $high",
            "clamps each number of $xs to the range from "
            "$low to $high"), _XS, "list[int]",
           (("with a comprehension", "return [max($low, min($high, $item)) for $item in $xs]"),
            ("using a loop", "$out = []\nfor $item in $xs:\n    $out.append(min(max($item, $low), $high))\n"
             "return $out")),
           lambda v, low, high: [sorted((low, x, high))[1] for x in v],
           (("low", (2, 3, 4, 5)), ("high", (8, 9, 10, 12)))),
    Family("rotate", ("rotate_$k", "rotate_left", "shift_by_$k"),
           ("returns $xs rotated to the left by $k places", "moves the first $k numbers of $xs to the end"),
           _XS,
           "list[int]",
           (("with slices", "return $xs[$k:] + $xs[:$k]"),
            ("using a loop",
             "$out = list($xs)\nfor _ in range($k):\n    $out.append($out.pop(0))\nreturn $out")),
           lambda v, k: [v[(i + k) % len(v)] for i in range(len(v))], (("k", (1, 2, 3)),)),
    Family("every_kth", ("every_$k", "take_every_$k", "skip_by_$k"),
           ("returns every number of $xs whose index is a multiple of $k",
            "returns the numbers of $xs at positions 0, "
            "$k and so on in steps of $k"), _XS, "list[int]",
           (("with a slice", "return $xs[::$k]"),
            ("using a loop",
             "$out = []\nfor $index in range(0, len($xs), $k):\n    $out.append($xs[$index])\n"
             "return $out")),
           lambda v, k: [x for i, x in enumerate(v) if i % k == 0], (("k", (2, 3)),)),
    Family("weighted_positions", ("weighted_sum", "position_sum", "index_weighted"),
           ("returns the sum of each number in $xs times its index plus $k",
            "adds up each number of $xs times its "
            "position, counting from $k"), _XS, "int",
           (("with enumerate", "return sum($index * $item for $index, $item in enumerate($xs, $k))"),
            ("using a loop", "$total = 0\nfor $index, $item in enumerate($xs):\n"
             "    $total += ($index + $k) * $item\nreturn $total")),
           lambda v, k: sum((i + k) * v[i] for i in range(len(v))), (("k", (1, 2, 3)),)),
    Family("alternating", ("alternating_sum", "plus_minus", "zigzag_sum"),
           ("adds and subtracts the numbers of $xs in turn, starting with plus",
            "returns the alternating sum of $xs"),
           _XS, "int",
           (("using a loop",
             "$total = 0\nsign = 1\nfor $item in $xs:\n    $total += sign * $item\n    sign = -sign\n"
             "return $total"), ("with slices", "return sum($xs[::2]) - sum($xs[1::2])")),
           lambda v: sum((-1) ** i * x for i, x in enumerate(v))),
    Family("dot", ("dot_product", "dot", "sum_of_products"),
           ("returns the dot product of $xs and $ys",
            "multiplies $xs and $ys pair by pair and adds the products"),
           _TWO, "int",
           (("with zip", "return sum(a * b for a, b in zip($xs, $ys))"),
            ("using a loop", "$total = 0\nfor a, b in zip($xs, $ys):\n    $total += a * b\nreturn $total")),
           lambda v, w: sum(v[i] * w[i] for i in range(min(len(v), len(w))))),
    Family("pairwise_larger", ("larger_of_each", "pairwise_max", "best_of_both"),
           ("returns the larger number of each pair from $xs and $ys",
            "returns the pairwise maximum of $xs and $ys"),
           _TWO, "list[int]",
           (("with zip", "return [max(a, b) for a, b in zip($xs, $ys)]"),
            ("using a loop", "$out = []\nfor a, b in zip($xs, $ys):\n    $out.append(a if a > b else b)\n"
             "return $out")), lambda v, w: [max(p) for p in zip(v, w, strict=False)]),
    Family("common", ("shared_values", "common_numbers", "in_both"),
           ("returns the numbers of $xs that are also in $ys",
            "returns the elements of $xs that $ys contains too"),
           _TWO, "list[int]",
           (("with a comprehension", "return [$item for $item in $xs if $item in $ys]"),
            ("using a loop",
             "$out = []\nfor $item in $xs:\n    if $item in $ys:\n        $out.append($item)\n"
             "return $out")), lambda v, w: list(filter(set(w).__contains__, v))),
    Family("row_sums", ("row_sums", "sum_rows", "row_totals"),
           ("returns the sum of each row of $m", "returns a list with the total of every row in $m"), _GRID,
           "list[int]", (("in one line", "return [sum(row) for row in $m]"),
                         ("using a loop",
                          "$out = []\nfor row in $m:\n    $out.append(sum(row))\nreturn $out")),
           lambda m: list(map(sum, m))),
    Family("grid_total", ("grid_total", "sum_all_cells", "matrix_sum"),
           ("adds up all numbers in the rows of $m", "returns the sum of all cells of $m"), _GRID, "int",
           (("with nested loops", "$total = 0\nfor row in $m:\n    for cell in row:\n        $total += cell\n"
             "return $total"), ("in one line", "return sum(sum(row) for row in $m)")),
           lambda m: sum(itertools.chain(*m))),
    Family("transpose", ("transpose", "flip_grid", "columns_of"),
           ("returns the columns of $m as rows", "returns $m transposed"), _GRID, "list[list[int]]",
           (("with zip", "return [list(column) for column in zip(*$m)]"),
            ("with an index", "return [[row[$index] for row in $m] for $index in range(len($m[0]))]")),
           lambda m: [[m[r][c] for r in range(len(m))] for c in range(len(m[0]))]),
    Family("flatten", ("flatten", "flatten_rows", "to_flat_list"),
           ("puts the numbers of all rows of $m in one list",
            "returns the rows of $m flattened into one list"), _GRID,
           "list[int]",
           (("with nested loops",
             "$out = []\nfor row in $m:\n    for cell in row:\n        $out.append(cell)\n"
             "return $out"), ("in one line", "return [cell for row in $m for cell in row]")),
           lambda m: list(itertools.chain.from_iterable(m))),
)
