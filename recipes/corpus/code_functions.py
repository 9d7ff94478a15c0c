"""The code domain: a request for one short Python function, and the function with an example call.

A function is composed (``code_pipelines.py``), or comes from a family: over numbers, lists, texts, dictionaries or
pairs. The families' texts lie in assets/demo/corpus/; what a function is to return is worked out here, in another way
than its bodies do.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any

from recipes.corpus.code_pipelines import make_pipeline
from recipes.corpus.code_tasks import (
    CLOSINGS,
    MAXIMUM_RESPONSE_CHARACTERS,
    Family,
    assertions_of,
    make_task,
    request_of,
    response_of,
)
from recipes.corpus.items import Item, rows

PIPELINE_SHARE = 0.45  # of the functions are composed


def _collatz(n: int) -> int:
    return 0 if n == 1 else 1 + _collatz(n // 2 if n % 2 == 0 else 3 * n + 1)


def _recurrence(n: int, first: int, second: int) -> int:
    values = [first, second]
    while len(values) <= n:
        values.append(sum(values[-2:]))
    return values[n]


def _summed(pairs: list[tuple[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for name, _ in pairs)
    return {name: sum(value for other, value in pairs if other == name) for name in names}


def _grouped(words: list[str], keys: Iterable[object]) -> dict[object, list[str]]:
    pairs = list(zip(keys, words, strict=True))
    return {key: [word for other, word in pairs if other == key] for key, _ in pairs}


REFERENCES: Mapping[str, Callable[..., Any]] = MappingProxyType({  # by family, of the arguments, then the constants
    "running_totals": lambda v: list(itertools.accumulate(v)),
    "product": math.prod,
    "differences": lambda v: [v[i + 1] - v[i] for i in range(len(v) - 1)],
    "neighbour_sums": lambda v: [sum(p) for p in itertools.pairwise(v)],
    "rises": lambda v: [a < b for a, b in itertools.pairwise(v)].count(True),
    "spread": lambda v: max(a - b for a in v for b in v),
    "largest": max,
    "second_largest": lambda v: sorted(set(v), reverse=True)[1] if len(set(v)) > 1 else 0,
    "index_of_largest": lambda v: next(i for i, x in enumerate(v) if x == max(v)),
    "average": lambda v: math.floor(sum(v) / len(v)),
    "median": statistics.median_low,
    "clamped": lambda v, low, high: [sorted((low, x, high))[1] for x in v],
    "rotate": lambda v, k: [v[(i + k) % len(v)] for i in range(len(v))],
    "every_kth": lambda v, k: [x for i, x in enumerate(v) if i % k == 0],
    "weighted_positions": lambda v, k: sum((i + k) * v[i] for i in range(len(v))),
    "alternating": lambda v: sum((-1) ** i * x for i, x in enumerate(v)),
    "dot": lambda v, w: sum(v[i] * w[i] for i in range(min(len(v), len(w)))),
    "pairwise_larger": lambda v, w: [max(p) for p in zip(v, w, strict=False)],
    "common": lambda v, w: list(filter(set(w).__contains__, v)),
    "row_sums": lambda m: list(map(sum, m)),
    "grid_total": lambda m: sum(itertools.chain(*m)),
    "transpose": lambda m: [[m[r][c] for r in range(len(m))] for c in range(len(m[0]))],
    "flatten": lambda m: list(itertools.chain.from_iterable(m)),
    "fibonacci": lambda n: _recurrence(n, 0, 1),
    "sum_sequence": _recurrence,
    "factorial": math.factorial,
    "collatz": _collatz,
    "gcd": math.gcd,
    "lcm": math.lcm,
    "digit_sum": lambda n: sum(map(int, str(n))),
    "is_prime": lambda n: [d for d in range(1, n + 1) if n % d == 0] == [1, n],
    "divisors": lambda n: [d for d in range(1, n + 1) if n // d * d == n],
    "power_steps": lambda n, k: next(c for c in range(20) if k**c > n),
    "power": lambda n, k: k**n,
    "sum_multiples": lambda n, k: sum(x for x in range(n + 1) if x % k == 0),
    "countdown": lambda n, k: [n - k * i for i in range(n) if n - k * i > 0],
    "times_table": lambda n, k: list(range(n, n * k + 1, n)),
    "bounded": lambda n, low, high: sorted((low, n, high))[1],
    "classify": lambda n, u, v, k: v if n >= k else u,
    "fizz": lambda n, u, k: u if n in range(0, 99, k) else f"{n}",
    "count_pairs": lambda n, k: len([a for a in range(1, n + 1) if a < k - a and k - a <= n]),
    "reverse": lambda w: "".join(reversed(w)),
    "palindrome": lambda w: list(w) == list(reversed(w)),
    "replace": lambda w, a, b: b.join(w.split(a)),
    "repeat": lambda w, k, s: (w + s) * (k - 1) + w,
    "char_counts": lambda w: dict(Counter(w)),
    "letter_index": lambda w, a: [m.start() for m in re.finditer(a, w)],
    "shift": lambda w, k: "".join((ascii_lowercase * 2)[ascii_lowercase.index(c) + k] for c in w),
    "alternate_case": lambda w: "".join(w[i].upper() if i in range(0, 99, 2) else w[i] for i in range(len(w))),
    "pad": lambda w, k, s: w.ljust(k, s),
    "shorten": lambda w, k, s: w[:k] + s * (len(w) > k),
    "same_letters": lambda w, v: Counter(w) == Counter(v),
    "word_count": lambda s: s.count(" ") + 1,
    "reverse_words": lambda s: " ".join(reversed(s.split(" "))),
    "acronym": lambda s: "".join(c for c in s.title() if c.isupper()),
    "title": str.title,
    "slug": lambda s, t: "".join(t if c == " " else c for c in s),
    "longest_word": lambda v: sorted(v, key=lambda w: -len(w))[0],
    "sort_length": lambda v: [w for n in range(20) for w in sorted(v) if len(w) == n],
    "sort_last": lambda v: [w for c in ascii_lowercase for w in v if w[-1] == c],
    "numbered": lambda v, k: [str(k + i) + ": " + w for i, w in enumerate(v)],
    "best_key": lambda d: next(k for k, v in d.items() if v == max(d.values())),
    "names_above": lambda d, k: [n for n in sorted(d) if d[n] > k],
    "filter_dict": lambda d, k: dict(p for p in d.items() if p[1] >= k),
    "scale_dict": lambda d, k: dict(zip(d, (v * k for v in d.values()), strict=True)),
    "invert": lambda d: dict(zip(d.values(), d.keys(), strict=True)),
    "total_values": lambda d: sum(d[k] for k in d),
    "ranking": lambda d: [k for v in range(20, 0, -1) for k in d if d[k] == v],
    "report": lambda d, s: s.join(k + "=" + str(d[k]) for k in d),
    "sum_pairs": _summed,
    "sort_pairs": lambda p: [name for n in range(20) for name, v in p if v == n],
    "group_length": lambda v: _grouped(v, map(len, v)),
    "group_initial": lambda v: _grouped(v, (w[0] for w in v)),
    "length_map": lambda v: dict(zip(v, map(len, v), strict=True)),
    "initial_counts": lambda v: dict(Counter(w[0] for w in v)),
})
FAMILIES = rows("code_families", lambda family, **fields: Family(
    family=family, reference=REFERENCES[family], **fields))


def make_code(random: random.Random) -> Item:
    """Make one item of the code domain; its check is three assertions on fresh arguments."""
    while True:
        composed = random.random() < PIPELINE_SHARE
        task = make_pipeline(random) if composed else make_task(random.choice(FAMILIES), random)
        typed = random.random() < 0.5
        prompt = request_of(task, typed, random)
        response = response_of(task, typed, random.choice(CLOSINGS))
        if len(response) <= MAXIMUM_RESPONSE_CHARACTERS:
            return Item("code", prompt, response, assertions_of(task))
