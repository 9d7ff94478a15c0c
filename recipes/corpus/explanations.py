"""The explain domain: questions about tree speculative decoding, each with a short hand-written answer.

The kind of question chooses among the answers of a notion (one sentence, plain, or how it works), so that the
response follows from the prompt."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from recipes.corpus.items import Item, lists, rows


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


NOTIONS = rows("explain_notions", Notion)
PAIRS = rows("explain_pairs", TermPair)
REASONS = rows("explain_reasons", Reason)
CHATS = rows("explain_chat", Chat)
# The fields of a notion's question are ``name`` and ``topic`` (see ``explain_records.Notion``) with the verbs that
# agree with the name (``be``, ``do``, ``works``) or with the topic (``topic_be``, ``topic_it``).
QUESTIONS = lists("explain_phrases")

KIND_WEIGHTS = (62, 17, 15, 6)  # notions, pairs, reasons, small talk
FRAME_WEIGHTS = (9, 16, 10)  # short, plain, how: by the number of frames of each
OPENER_SHARE, CLOSER_SHARE, LOWER_SHARE, SYMBOL_SHARE = 0.2, 0.08, 0.15, 0.5

SYMBOLS: tuple[tuple[str, str], ...] = (("tau", "τ"), ("mu", "μ"), ("phi", "φ"))


def make_explain(random: random.Random) -> Item:
    """Make one question of the explain domain with its answer; equal prompts always have equal answers."""
    maker = random.choices((_notion, _pair, _reason, _chat), KIND_WEIGHTS)[0]
    prompt, response = maker(random)
    return Item("explain", prompt, response)


def _notion(random: random.Random) -> tuple[str, str]:
    notion = random.choice(NOTIONS)
    choices = ((QUESTIONS["short"], notion.short), (QUESTIONS["plain"], notion.plain), (QUESTIONS["how"], notion.how))
    frames, answer = random.choices(choices, FRAME_WEIGHTS)[0]
    question = random.choice(frames).format(
        name=notion.name,
        topic=notion.topic,
        be="are" if notion.name_plural else "is",
        do="do" if notion.name_plural else "does",
        works="work" if notion.name_plural else "works",
        topic_be="are" if notion.topic_plural else "is",
        topic_it="they" if notion.topic_plural else "it",
    )
    return _dress(random, question), answer


def _pair(random: random.Random) -> tuple[str, str]:
    pair = random.choice(PAIRS)
    left, right = random.sample((pair.left, pair.right), 2)
    return _dress(random, random.choice(QUESTIONS["pair"]).format(left=left, right=right)), pair.answer


def _reason(random: random.Random) -> tuple[str, str]:
    reason = random.choice(REASONS)
    question = random.choice(QUESTIONS["reason"]).format(question=reason.question, clause=reason.clause)
    return _dress(random, question), reason.answer


def _chat(random: random.Random) -> tuple[str, str]:
    chat = random.choice(CHATS)
    prompt = random.choice(chat.prompts)
    if prompt[-1].isalpha():
        prompt += random.choice(QUESTIONS["chat_endings"])
    return _lowered(random, prompt), chat.answer


def _dress(random: random.Random, question: str) -> str:
    """Return the question as different people type it: with a greeting, with thanks, with symbols, in lower case."""
    question = question[0].upper() + question[1:]
    if random.random() < OPENER_SHARE:
        question = _opened(random.choice(QUESTIONS["openers"]), question)
    if random.random() < CLOSER_SHARE:
        question += random.choice(QUESTIONS["closers"])
    if random.random() < SYMBOL_SHARE:
        for word, symbol in SYMBOLS:
            question = re.sub(rf"\b{word}\b", symbol, question, flags=re.IGNORECASE)
    return _lowered(random, question)


def _opened(opener: str, question: str) -> str:
    goes_on = opener.rstrip()[-1] in ":,"
    keeps_capital = question.startswith("I ") or question[1].isupper()
    if goes_on and not keeps_capital:
        question = question[0].lower() + question[1:]
    return opener + question


def _lowered(random: random.Random, prompt: str) -> str:
    if random.random() >= LOWER_SHARE:
        return prompt
    prompt = prompt.lower()
    return prompt.rstrip("?.!") if random.random() < 0.5 else prompt
