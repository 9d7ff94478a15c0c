"""Sound values made odd: a trace's lines, a request's fields, a file's bytes. Seeded: a case can be repeated."""

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 255, 256, 2**31 - 1, 2**31, 2**63, 2**64, 10**400, -2**63, 0.5, -0.5, 1e-320, 1e308,
    float("inf"), float("-inf"), float("nan"), "", " ", "x", "0", "-1", "1e999", "NaN", "\ud83d", "a\ud800b", "\0",
    "\u202e\u2066", "</script><img src=x onerror=alert(1)>", "${7*6}{{7*6}}", "🌳" * 50, "x" * 5000, "../../etc/passwd",
    "AAAA", "AAAAAA==", "!!!!", [], [[]], [[[[[]]]]], [-1], [0], [1, 2, 3], ["x"], [None], {}, {"": None}, {"x": "y"},
    {"dtype": "|O", "shape": [1], "data": "AAAAAA=="}, {"dtype": "<i4", "shape": [1], "data": "AAAAAA=="},
    {"dtype": "<f4", "shape": [1], "data": "AADAfw=="}, {"dtype": "<i4", "shape": [0], "data": ""},
    {"dtype": "<i4", "shape": [2**40], "data": "AAAA"}, {"dtype": "<i4", "shape": [-1], "data": "AAAAAA=="})


def odd(random: Random, more: Sequence[Any] = ()) -> Any:
    """Something that hardly anybody expects, out of ``ODD`` or of ``more``."""
    return copy.deepcopy(random.choice(more if more and random.random() < 0.4 else ODD))


def bent(value: Any, random: Random, more: Sequence[Any] = ()) -> Any:
    """The JSON value with one of its parts, at any depth, replaced by something odd, left out, doubled, renamed, or
    exchanged with another."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(
        value, list) else []
    if not keys or random.random() < 0.08:
        return _near(value, random) if random.random() < 0.4 else odd(random, more)
    key = random.choice(keys)
    act = random.random()
    if act < 0.06:
        del value[key]
    elif act < 0.09 and isinstance(value, dict):
        value[str(odd(random))[:60]] = value.pop(key)
    elif act < 0.13:
        other = random.choice(keys)
        value[key], value[other] = value[other], value[key]
    else:
        value[key] = bent(value[key], random, more)
    return value


def _near(value: Any, random: Random) -> Any:
    """A value of the same kind."""
    if isinstance(value, bool) or value is None:
        return random.choice((True, False, None))
    if isinstance(value, int | float):
        part = value // 3 + 0.25 if abs(value) < 1e300 else 0.25
        return random.choice((-value, value + 1, value - 1, value * 2**33, part, 0, str(value)))
    if isinstance(value, str):
        place = random.randrange(len(value) + 1)
        return value[:place] + str(odd(random))[:20] + value[place + random.randrange(3):]
    return value


def bent_lines(lines: list[bytes], random: Random, more: Sequence[Any] = ()) -> bytes:
    """A file of JSON lines with a few of their values bent, and at times the lines themselves."""
    lines = list(lines)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        number = random.randrange(len(lines))
        try:
            value = bent(json.loads(lines[number]), random, more)
            lines[number] = json.dumps(value, ensure_ascii=random.random() < 0.9).encode("utf8", "surrogatepass")
        except (ValueError, RecursionError):
            lines[number] = lines[number][: random.randrange(len(lines[number]) + 1)]
    if random.random() < 0.1:
        lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
    if random.random() < 0.05:
        random.shuffle(lines)
    return b"\n".join(lines) + b"\n"


def bent_bytes(data: bytes, random: Random) -> bytes:
    """A file with some of its bytes changed, cut, doubled."""
    damaged = bytearray(data)
    for _ in range(random.randrange(1, 5)):
        place = random.randrange(len(damaged) + 1)
        damaged[place:place + random.choice((0, 1, 1, 4, 40))] = random.randbytes(random.choice((0, 1, 1, 3, 12)))
    return bytes(damaged[:random.randrange(len(damaged) + 1)]) if random.random() < 0.1 else bytes(damaged)


def json_values() -> SearchStrategy[Any]:
    """JSON values of any kind."""
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
    return st.recursive(leaves, lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)), max_leaves=8)
