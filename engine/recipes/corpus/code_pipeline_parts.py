"""The parts that composed functions are made of, over numbers, over characters and over words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from string import Template
from typing import Any


def fill(text: str, **slots: object) -> str:
    """The template text with its slots filled; slots it does not know stay."""
    return Template(text).safe_substitute(slots)


@dataclass(frozen=True)
class Keep:
    """A condition: name stem, phrases for what is kept, source of the test and of its opposite, meaning."""

    stem: str
    phrases: tuple[str, ...]
    test: str
    opposite: str
    meaning: Callable[[Any, Any], bool]
    constant: object = None

    def with_constant(self, constant: object) -> Keep:
        """The same condition with ``$k`` decided."""
        phrases = tuple(fill(phrase, k=constant) for phrase in self.phrases)
        texts = (fill(self.stem, k=constant), phrases, fill(self.test, k=constant),
                 fill(self.opposite, k=constant))
        return Keep(*texts, self.meaning, constant)


@dataclass(frozen=True)
class Change:
    """A change of each element: name stem, phrases, result type, source, meaning."""

    stem: str
    phrases: tuple[str, ...]
    kind: str
    expression: str
    meaning: Callable[[Any, Any], object]
    constant: object = None

    def with_constant(self, constant: object) -> Change:
        """The same change with ``$k`` decided."""
        phrases = tuple(fill(phrase, k=constant) for phrase in self.phrases)
        expression = fill(self.expression, k=constant)
        return replace(
            self, stem=fill(self.stem, k=constant), phrases=phrases, expression=expression, constant=constant
        )


@dataclass(frozen=True)
class Gather:
    """A reduction: the loop's start, step and finish, the one-line form, what it accepts and means."""

    stem: str
    phrases: tuple[str, ...]
    start: str
    step: str
    line: str
    meaning: Callable[[list[Any]], object]
    returns: str
    locals: tuple[str, ...]
    accepts: tuple[str, ...] = ("int", "str")
    finish: str = "$acc"
    takes_change: bool = True


@dataclass(frozen=True)
class ValueSource:
    """A collection to run over, with the parts that suit it; the first keep and change do nothing."""

    kind: str
    items: tuple[str, ...]
    nouns: tuple[str, ...]
    constants: tuple[object, ...]
    keeps: tuple[Keep, ...]
    changes: tuple[Change, ...]
    gathers: tuple[Gather, ...]


def every(element: object, constant: object) -> bool:
    """The meaning of a condition that keeps everything."""
    return True


def same(element: object, constant: object) -> object:
    """The meaning of a change that changes nothing."""
    return element
