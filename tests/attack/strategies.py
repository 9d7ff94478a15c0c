"""Hypothesis strategies for hostile input: valid JSON values, lines and bytes with some parts altered."""

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

STRANGE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 255, 256, 2**31 - 1, 2**31, 2**63, 2**64, 10**400, -2**63, 0.5, -0.5, 1e-320, 1e308,
    float("inf"), float("-inf"), float("nan"), "", " ", "x", "0", "-1", "1e999", "NaN", "\ud83d", "a\ud800b", "\0",
    "\u202e\u2066", "</script><img src=x onerror=alert(1)>", "${7*6}{{7*6}}", "🌳" * 50, "x" * 5000, "../../etc/passwd",
    "AAAA", "AAAAAA==", "!!!!", [], [[]], [[[[[]]]]], [-1], [0], [1, 2, 3], ["x"], [None], {}, {"": None}, {"x": "y"},
    {"dtype": "|O", "shape": [1], "data": "AAAAAA=="}, {"dtype": "<i4", "shape": [1], "data": "AAAAAA=="},
    {"dtype": "<f4", "shape": [1], "data": "AADAfw=="}, {"dtype": "<i4", "shape": [0], "data": ""},
    {"dtype": "<i4", "shape": [2**40], "data": "AAAA"}, {"dtype": "<i4", "shape": [-1], "data": "AAAAAA=="})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=8)
ODD = st.sampled_from(STRANGE).map(copy.deepcopy) | JSON


def mostly(value: Any, *others: Any, times: int = 9) -> SearchStrategy[Any]:
    """Draw the first value mostly, and sometimes another."""
    return st.sampled_from((value,) * times + others)


@st.composite
def mutated(draw: Callable[..., Any], value: Any, odd: SearchStrategy[Any] = ODD) -> Any:
    """Replace, remove, rename or swap one part of a JSON value, at any depth."""
    root: Any = [copy.deepcopy(value)]
    holder, key = root, 0
    while isinstance(part := holder[key], dict | list) and part and draw(st.integers(0, 9)):
        keys = list(part) if isinstance(part, dict) else range(len(part))
        holder, key = part, draw(st.sampled_from(keys))
    act = draw(mostly("replace", "resize", "resize", "remove", "rename", "exchange", times=10))
    if act == "replace" or holder is root:
        holder[key] = draw(odd)
    elif act == "resize":
        holder[key] = _resized(holder[key], draw)
    elif act == "remove":
        del holder[key]
    elif act == "rename" and isinstance(holder, dict):
        holder[str(draw(odd))[:60]] = holder.pop(key)
    else:
        other = draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
        holder[key], holder[other] = holder[other], holder[key]
    return root[0]


def _resized(value: Any, draw: Callable[..., Any]) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, str):
        place = draw(st.integers(0, len(value)))
        return value[:place] + draw(st.text(max_size=8)) + value[place + draw(st.integers(0, 2)):]
    if isinstance(value, int | float):
        return draw(st.sampled_from((-value, value + 1, value - 1, value * 2**33, 0, str(value)))) if abs(
            value) < 1e300 else 0.25
    return value * 2 if isinstance(value, list) else value


@st.composite
def mutated_json(draw: Callable[..., Any], value: Any, times: int = 3, odd: SearchStrategy[Any] = ODD) -> Any:
    """Alter a JSON value a few times, or not at all."""
    for _ in range(draw(st.integers(0, times))):
        value = draw(mutated(value, odd))
    return value


@st.composite
def mutated_lines(draw: Callable[..., Any], lines: Sequence[bytes]) -> bytes:
    """Alter, truncate, duplicate or reorder some lines of a JSON lines file."""
    lines = list(lines)
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(lines) - 1))
        try:
            lines[number] = json.dumps(draw(mutated(json.loads(lines[number])))).encode()
        except (ValueError, RecursionError):
            lines[number] = lines[number][:draw(st.integers(0, len(lines[number])))]
    if draw(mostly(False, True)):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(lines)))
    return b"\n".join(draw(st.permutations(lines)) if draw(mostly(False, True, times=19)) else lines) + b"\n"


def mutated_bytes(data: bytes) -> SearchStrategy[bytes]:
    """Change, remove or duplicate some bytes of a file, or truncate it."""
    place, count = st.integers(0, len(data)), st.sampled_from((0, 1, 4, 40, -40))
    return st.builds(lambda begin, count, new, end: (data[:begin] + new + data[max(0, begin + count):])[:end],
                     place, count, st.binary(max_size=12), st.none() | place)
