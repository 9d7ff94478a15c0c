"""Strategies for hostile input: sound JSON values, lines and bytes of which parts are made odd."""

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


def often(value: Any, *others: Any, times: int = 9) -> SearchStrategy[Any]:
    """One value mostly, and sometimes another."""
    return st.sampled_from((value,) * times + others)


@st.composite
def bent(draw: Callable[..., Any], value: Any, odd: SearchStrategy[Any] = ODD) -> Any:
    """A JSON value of which one part, at any depth, is replaced, left out, renamed or exchanged with another."""
    root: Any = [copy.deepcopy(value)]
    holder, key = root, 0
    while isinstance(part := holder[key], dict | list) and part and draw(st.integers(0, 9)):
        keys = list(part) if isinstance(part, dict) else range(len(part))
        holder, key = part, draw(st.sampled_from(keys))
    act = draw(often("replace", "resize", "resize", "remove", "rename", "exchange", times=10))
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
    """Another value of the same kind."""
    if isinstance(value, str):
        place = draw(st.integers(0, len(value)))
        return value[:place] + draw(st.text(max_size=8)) + value[place + draw(st.integers(0, 2)):]
    if isinstance(value, int | float):
        return draw(st.sampled_from((-value, value + 1, value - 1, value * 2**33, 0, str(value)))) if abs(
            value) < 1e300 else 0.25
    return value * 2 if isinstance(value, list) else value


@st.composite
def bent_json(draw: Callable[..., Any], value: Any, times: int = 3, odd: SearchStrategy[Any] = ODD) -> Any:
    """A JSON value bent a few times, or not at all."""
    for _ in range(draw(st.integers(0, times))):
        value = draw(bent(value, odd))
    return value


@st.composite
def bent_lines(draw: Callable[..., Any], lines: Sequence[bytes]) -> bytes:
    """A file of JSON lines of which some are bent, cut off, doubled or in another order."""
    lines = list(lines)
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(lines) - 1))
        try:
            lines[number] = json.dumps(draw(bent(json.loads(lines[number])))).encode()
        except (ValueError, RecursionError):
            lines[number] = lines[number][:draw(st.integers(0, len(lines[number])))]
    if draw(often(False, True)):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(lines)))
    return b"\n".join(draw(st.permutations(lines)) if draw(often(False, True, times=19)) else lines) + b"\n"


def bent_bytes(data: bytes) -> SearchStrategy[bytes]:
    """A file with some bytes changed, left out or doubled, or cut off."""
    place, count = st.integers(0, len(data)), st.sampled_from((0, 1, 4, 40, -40))
    return st.builds(lambda begin, count, new, end: (data[:begin] + new + data[max(0, begin + count):])[:end],
                     place, count, st.binary(max_size=12), st.none() | place)
