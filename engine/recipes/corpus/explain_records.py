"""The rows that the tables of the explain domain are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Notion:
    """A concept with two answers: ``plain`` says what it is, ``how`` says how it works.

    ``name`` is the form with its article ("a draft tree"), ``topic`` the form that follows "about"
    ("draft trees"); the flags say which of the two takes a plural verb. The first sentence of ``plain`` is a
    definition that stands on its own.
    """

    name: str
    topic: str
    plain: str
    how: str
    name_plural: bool = False
    topic_plural: bool = False

    @property
    def short(self) -> str:
        """The definition in one sentence."""
        return self.plain.split(". ", 1)[0].rstrip(".") + "."


@dataclass(frozen=True)
class TermPair:
    """Two concepts and how they differ."""

    left: str
    right: str
    answer: str


@dataclass(frozen=True)
class Reason:
    """A fact, once as the tail of a "Why ..." question and once as a clause, with its reason."""

    question: str
    clause: str
    answer: str


@dataclass(frozen=True)
class Chat:
    """Ways to say one thing in small talk, and the reply to all of them."""

    prompts: tuple[str, ...]
    answer: str
