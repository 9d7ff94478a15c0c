"""The kinds of argument a generated function takes: names for them, their Python type, fresh small values."""

from __future__ import annotations

import random
from dataclasses import dataclass

WORDS = (
    "apple", "river", "stone", "cloud", "lamp", "tiger", "green", "paper", "music", "ocean", "bread", "chair",
    "sun", "moon", "tree", "level", "noon", "bird", "glass", "road", "winter", "button", "silver", "cat",
    "dog",
    "idea", "orange", "echo", "union", "kayak", "hill", "spoon", "letter", "queen", "yellow", "otter", "ice",
)
PEOPLE = ("ana", "ben", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "june", "kai", "lena")


@dataclass(frozen=True)
class ArgumentKind:
    """One kind of argument: its Python type and the names it goes by."""

    type_name: str
    names: tuple[str, ...]


KINDS = {
    "numbers": ArgumentKind("list[int]", ("numbers", "values", "nums", "data", "series", "readings")),
    "signed": ArgumentKind("list[int]", ("numbers", "values", "nums", "data", "changes")),
    "others": ArgumentKind("list[int]", ("others", "second", "right", "weights")),
    "size": ArgumentKind("int", ("n", "limit", "size", "number")),
    "small": ArgumentKind("int", ("k", "step", "amount", "width")),
    "positive": ArgumentKind("int", ("a", "first", "left", "x")),
    "second": ArgumentKind("int", ("b", "other", "divisor", "y")),
    "word": ArgumentKind("str", ("word", "text", "string", "name")),
    "other_word": ArgumentKind("str", ("other", "second", "target")),
    "words": ArgumentKind("list[str]", ("words", "names", "terms", "labels")),
    "sentence": ArgumentKind("str", ("sentence", "text", "line", "phrase")),
    "letter": ArgumentKind("str", ("letter", "char", "symbol")),
    "scores": ArgumentKind("dict[str, int]", ("scores", "prices", "ages", "stock", "points")),
    "matrix": ArgumentKind("list[list[int]]", ("matrix", "grid", "rows", "table")),
    "pairs": ArgumentKind("list[tuple[str, int]]", ("pairs", "entries", "records")),
}


def _scalar(kind: str, random: random.Random) -> object:
    """A value of one of the kinds that are no collection."""
    if kind == "size":
        return random.randint(2, 12)
    if kind == "small":
        return random.randint(2, 5)
    if kind in ("positive", "second"):
        return random.randint(2, 24)
    if kind == "letter":
        return random.choice("aeinorst")
    if kind == "sentence":
        return " ".join(random.choice(WORDS) for _ in range(random.randint(2, 4)))
    return random.choice(WORDS)


def sample_value(kind: str, random: random.Random) -> object:
    """A fresh value of the named kind (a key of ``KINDS``), small enough to work out by hand."""
    length = random.randint(3, 5)
    if kind in ("numbers", "others"):
        return [random.randint(1, 15) for _ in range(length)]
    if kind == "signed":
        return [random.randint(-9, 12) for _ in range(length)]
    if kind == "words":
        return random.sample(WORDS, random.randint(2, 4))
    if kind == "scores":
        return {name: random.randint(1, 12) for name in random.sample(PEOPLE, random.randint(2, 4))}
    if kind == "pairs":
        return [(random.choice(PEOPLE[:4]), random.randint(1, 9)) for _ in range(length - 1)]
    if kind == "matrix":
        width = random.randint(2, 3)
        return [[random.randint(1, 9) for _ in range(width)] for _ in range(random.randint(2, 3))]
    return _scalar(kind, random)


def literal(value: object) -> str:
    """Python source of a value, strings in double quotes."""
    text = repr(value)
    return text if '"' in text else text.replace("'", '"')
