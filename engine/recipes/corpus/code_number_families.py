"""Families of functions over whole numbers: loops with while, recursion, recurrences, divisors, digits."""

from __future__ import annotations

import math

from engine.recipes.corpus.code_families import Family

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
