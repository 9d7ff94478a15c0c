"""Families of functions over lists and rows of numbers, and over whole numbers: loops, recursion, divisors, digits."""

from __future__ import annotations

import itertools
import math
import statistics

from engine.recipes.corpus.code_tasks import Family

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


_N = (("n", "size"),)
_AB = (("a", "positive"), ("b", "second"))


def _collatz(n: int) -> int:
    return 0 if n == 1 else 1 + _collatz(n // 2 if n % 2 == 0 else 3 * n + 1)


def _recurrence(n: int, first: int, second: int) -> int:
    values = [first, second]
    while len(values) <= n:
        values.append(sum(values[-2:]))
    return values[n]


NUMBER_FAMILIES = (
    Family("fibonacci", ("fibonacci", "fib", "nth_fibonacci"),
           ("returns the Fibonacci number at index $n, starting 0, 1",
            "returns entry $n of the Fibonacci numbers, which "
            "begin 0, 1"), _N, "int",
           (("using a loop", "a, b = 0, 1\nfor _ in range($n):\n    a, b = b, a + b\nreturn a"),
            ("recursively", "if $n < 2:\n    return $n\nreturn ${self}($n - 1) + ${self}($n - 2)"),
            ("with a while loop", "a, b = 0, 1\nwhile $n > 0:\n    a, b = b, a + b\n    $n -= 1\nreturn a")),
           lambda n: _recurrence(n, 0, 1)),
    Family("sum_sequence", ("sequence_term", "add_last_two", "recurrence"),
           ("returns entry $n of the sequence that starts $p, $q and adds the last two",
            "starts with $p and $q, adds the last two each time, and returns entry $n"), _N, "int",
           (("using a loop", "a, b = $p, $q\nfor _ in range($n):\n    a, b = b, a + b\nreturn a"),
            ("with a list", "$out = [$p, $q]\nwhile len($out) <= $n:\n    $out.append($out[-1] + $out[-2])\n"
             "return $out[$n]")), _recurrence, (("p", (1, 2, 3, 4)), ("q", (1, 2, 3, 5)))),
    Family("factorial", ("factorial", "fact", "factorial_of"),
           ("returns the factorial of $n", "multiplies the numbers from 1 to $n"), (("n", "small"),), "int",
           (("recursively", "if $n <= 1:\n    return 1\nreturn $n * ${self}($n - 1)"),
            ("using a loop",
             "$total = 1\nfor $index in range(2, $n + 1):\n    $total *= $index\nreturn $total"),
            ("with a while loop", "$total = 1\nwhile $n > 1:\n    $total *= $n\n    $n -= 1\nreturn $total")),
           math.factorial),
    Family("collatz", ("collatz_steps", "steps_to_one", "collatz_length"),
           ("counts the Collatz steps from $n down to 1", "returns how many Collatz steps lead from $n to 1"),
           _N,
           "int",
           (("with a while loop",
             "$count = 0\nwhile $n != 1:\n    if $n % 2 == 0:\n        $n //= 2\n    else:\n"
             "        $n = 3 * $n + 1\n    $count += 1\nreturn $count"),
            ("recursively", "if $n == 1:\n    return 0\nif $n % 2 == 0:\n    return 1 + ${self}($n // 2)\n"
             "return 1 + ${self}(3 * $n + 1)")), _collatz),
    Family("gcd", ("gcd", "greatest_common_divisor", "common_divisor"),
           ("returns the greatest common divisor of $a and $b",
            "finds the largest number dividing both $a and $b"),
           _AB, "int",
           (("with a while loop", "while $b:\n    $a, $b = $b, $a % $b\nreturn $a"),
            ("recursively", "if $b == 0:\n    return $a\nreturn ${self}($b, $a % $b)")), math.gcd),
    Family("lcm", ("lcm", "least_common_multiple", "common_multiple"),
           ("returns the least common multiple of $a and $b",
            "finds the smallest number that $a and $b both divide"),
           _AB, "int",
           (("with a while loop", "$total = $a\nwhile $total % $b != 0:\n    $total += $a\nreturn $total"),
            ("using a loop", "for $index in range(1, $b + 1):\n    if $a * $index % $b == 0:\n"
             "        return $a * $index\nreturn $a * $b")), math.lcm),
    Family("digit_sum", ("digit_sum", "sum_digits", "add_digits"),
           ("returns the sum of the digits of $n", "adds up the digits of $n"), (("n", "positive"),), "int",
           (("with a while loop",
             "$total = 0\nwhile $n > 0:\n    $total += $n % 10\n    $n //= 10\nreturn $total"),
            ("with a string", "return sum(int(digit) for digit in str($n))"),
            ("recursively", "if $n < 10:\n    return $n\nreturn $n % 10 + ${self}($n // 10)")),
           lambda n: sum(map(int, str(n)))),
    Family("is_prime", ("is_prime", "check_prime", "prime"),
           ("tells whether $n is a prime number", "returns whether $n is prime"), (("n", "positive"),),
           "bool",
           (("using a loop",
             "if $n < 2:\n    return False\nfor $index in range(2, $n):\n    if $n % $index == 0:\n"
             "        return False\nreturn True"),
            ("in one line", "return $n > 1 and all($n % $index != 0 for $index in range(2, $n))"),
            ("with a while loop", "if $n < 2:\n    return False\n$index = 2\nwhile $index * $index <= $n:\n"
             "    if $n % $index == 0:\n        return False\n    $index += 1\nreturn True")),
           lambda n: [d for d in range(1, n + 1) if n % d == 0] == [1, n]),
    Family("divisors", ("divisors", "divisors_of", "all_divisors"),
           ("returns a list of the divisors of $n", "lists all numbers from 1 to $n that divide $n"), _N,
           "list[int]",
           (("with a comprehension", "return [$index for $index in range(1, $n + 1) if $n % $index == 0]"),
            ("using a loop", "$out = []\nfor $index in range(1, $n + 1):\n    if $n % $index == 0:\n"
             "        $out.append($index)\nreturn $out")),
           lambda n: [d for d in range(1, n + 1) if n // d * d == n]),
    Family("power_steps", ("count_halvings", "halving_steps", "times_divided"),
           ("counts how often $n can be divided by $k, rounding down, until it is 0",
            "returns how many divisions by $k, rounded down, bring $n to 0"), _N, "int",
           (("with a while loop", "$count = 0\nwhile $n > 0:\n    $n //= $k\n    $count += 1\nreturn $count"),
            ("recursively", "if $n == 0:\n    return 0\nreturn 1 + ${self}($n // $k)")),
           lambda n, k: next(c for c in range(20) if k**c > n), (("k", (2, 3, 4)),)),
    Family("power", ("power_of_$k", "raise_$k", "exponent_$k"),
           ("returns $k to the power of $n", "multiplies $k by itself until there are $n factors"),
           (("n", "small"),),
           "int",
           (("using a loop", "$total = 1\nfor _ in range($n):\n    $total *= $k\nreturn $total"),
            ("recursively", "if $n == 0:\n    return 1\nreturn $k * ${self}($n - 1)")),
           lambda n, k: k**n, (("k", (2, 3, 4, 5)),)),
    Family("sum_multiples", ("sum_multiples_of_$k", "add_multiples_$k", "multiples_total_$k"),
           ("adds the multiples of $k from 1 to $n",
            "returns the sum of all numbers up to $n that $k divides"), _N,
           "int",
           (("using a loop", "$total = 0\nfor $index in range(1, $n + 1):\n    if $index % $k == 0:\n"
             "        $total += $index\nreturn $total"),
            ("in one line", "return sum(range($k, $n + 1, $k))"),
            ("with a while loop", "$total = 0\n$index = $k\nwhile $index <= $n:\n    $total += $index\n"
             "    $index += $k\nreturn $total")),
           lambda n, k: sum(x for x in range(n + 1) if x % k == 0), (("k", (2, 3, 4, 5)),)),
    Family("countdown", ("countdown", "count_down", "descend_by_$k"),
           ("returns a list from $n down to 1 or more in steps of $k",
            "counts down from $n by $k while positive and "
            "returns the list"), _N, "list[int]",
           (("with a while loop", "$out = []\nwhile $n > 0:\n    $out.append($n)\n    $n -= $k\nreturn $out"),
            ("in one line", "return list(range($n, 0, -$k))")),
           lambda n, k: [n - k * i for i in range(n) if n - k * i > 0], (("k", (1, 2, 3)),)),
    Family("times_table", ("times_table", "multiples", "first_multiples"),
           ("returns the first $k multiples of $n", "lists $n times 1 up to $n times $k"), _N, "list[int]",
           (("with a comprehension", "return [$n * $index for $index in range(1, $k + 1)]"),
            ("using a loop", "$out = []\nfor $index in range(1, $k + 1):\n    $out.append($n * $index)\n"
             "return $out")), lambda n, k: list(range(n, n * k + 1, n)), (("k", (3, 4, 5)),)),
    Family("bounded", ("clamp", "clamp_value", "keep_in_range"),
           ("returns $n limited to the range from $low to $high",
            "returns $n, but at least $low and at most $high"),
           (("n", "positive"),), "int",
           (("with if", "if $n < $low:\n    return $low\nif $n > $high:\n    return $high\nreturn $n"),
            ("in one line", "return max($low, min($high, $n))")), lambda n, low,
           high: sorted((low, n, high))[1],
           (("low", (3, 4, 5, 6)), ("high", (12, 15, 18, 20)))),
    Family("classify", ("classify", "describe_number", "size_label"),
           ('returns "$u" when $n is below $k and "$v" otherwise',
            'returns "$v" if $n is at least $k, else "$u"'),
           (("n", "positive"),), "str",
           (("with if", 'if $n < $k:\n    return "$u"\nreturn "$v"'),
            ("in one line", 'return "$u" if $n < $k else "$v"')), lambda n, u, v, k: v if n >= k else u,
           (("u", ("small", "low", "cold", "short")), ("v", ("big", "high", "warm", "tall")),
            ("k", (8, 10, 12, 15)))),
    Family("fizz", ("fizz", "fizz_label", "word_or_number"),
           ('returns "$u" when $k divides $n and $n as text otherwise',
            'returns "$u" for multiples of $k, else the '
            "digits of $n as a string"), (("n", "positive"),), "str",
           (("with if", 'if $n % $k == 0:\n    return "$u"\nreturn str($n)'),
            ("in one line", 'return "$u" if $n % $k == 0 else str($n)')),
           lambda n, u, k: u if n in range(0, 99, k) else f"{n}",
           (("u", ("fizz", "buzz", "pop", "tick")), ("k", (2, 3, 4, 5)))),
    Family("count_pairs", ("count_pairs", "pairs_with_sum", "ways_to_add"),
           ("counts the pairs of numbers from 1 to $n, smaller first, that add up to $k",
            "returns how many pairs a < b from 1 to $n have the sum $k"), _N, "int",
           (("with nested loops",
             "$count = 0\nfor a in range(1, $n + 1):\n    for b in range(a + 1, $n + 1):\n"
             "        if a + b == $k:\n            $count += 1\nreturn $count"),
            ("in one line", "return sum(1 for a in range(1, $n + 1) if a < $k - a <= $n)")),
           lambda n, k: len([a for a in range(1, n + 1) if a < k - a and k - a <= n]),
           (("k", (6, 7, 8, 9)),)),
)
