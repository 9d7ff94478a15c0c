"""Prompt files for the target to answer: JSON lines with ``messages``, written once, never near a held-out prompt.

The target itself writes two in three, as a user's turn. The others begin with the seeds, and some of those continue an
answered conversation.

Seeds are tasks combined with their subjects, from the lists in ``seeds/``, one item per line. A draw is a function of
its random generator alone. A task may name other lists in braces ({topic}, {country} …); ``{other}`` is a second item
of the same list, ``{a}``, ``{b}`` and ``{c}`` are numbers.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.requests.prompts import read_prompts
from recipes.own_answers.decoder import AnswerSampling, BatchDecoder, write_answers
from recipes.own_answers.shards import AnswerRow, is_repetitive, read_shard

FOLDER = Path(__file__).with_name("seeds")
# How often each kind is drawn. Enough of it is code to train a drafter on code alone.
KINDS: Mapping[str, float] = MappingProxyType({
    "tasks": 0.30, "code_tasks": 0.18, "snippets": 0.03, "text_tasks": 0.14, "letter_tasks": 0.06, "greetings": 0.03,
    "questions": 0.12, "sums": 0.06, "list_tasks": 0.08})
LIST_OF_FIELD: Mapping[str, str] = MappingProxyType({
    "topic": "topics", "text": "texts", "letter": "letters", "code": "code", "country": "countries",
    "person": "persons", "many": "many", "why": "why", "how": "how", "name": "names", "list": "lists"})
NUMBERS: Mapping[str, tuple[int, int]] = MappingProxyType({"a": (2, 60), "b": (61, 250), "c": (2, 12)})
CODE = ("code_tasks", "snippets")


@cache
def lines(name: str) -> tuple[str, ...]:
    """Return the items of a list; a line break inside an item is written as in Python."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf8")
    return tuple(line.replace("\\n", "\n") for line in text.splitlines())


def seed_prompt(draw: random.Random, kinds: tuple[str, ...] = tuple(KINDS)) -> str:
    """Return a prompt of one of these kinds."""
    kind = draw.choices(kinds, [KINDS[kind] for kind in kinds])[0]
    return fill_task(draw.choice(lines(kind)), draw)


def fill_task(task: str, draw: random.Random) -> str:
    """Replace each of a task's braces by an item."""
    named = re.findall(r"{(\w+)}", task)
    values = {field: str(draw.randint(*NUMBERS[field])) for field in named if field in NUMBERS}
    for field in named:
        if field in LIST_OF_FIELD:
            one, other = draw.sample(lines(LIST_OF_FIELD[field]), 2)
            values |= {field: one, "other": other}
    text = re.sub(r"{(\w+)}", lambda match: values.get(match[1], match[0]), task)
    return text[0].upper() + text[1:] if draw.random() < 0.9 else text


def follow_up(draw: random.Random) -> str:
    """Return a follow-up turn that fits any answer."""
    return draw.choice(lines("follow_ups"))


PROMPTS_PER_FILE = 384
ROWS = 256
MAX_TURN_LENGTH = 112  # tokens
TEMPERATURE = 1.0
TOP_P = 0.95
MAX_EMPTY_BATCHES = 8  # in a row: batches of turns, or files of answers, without a new one
DRAWS_PER_PROMPT = 20  # a kind of seeds has a limited number of prompts
FOLLOW_UP_FRACTION = 0.1  # of seeded prompts
MAX_FOLLOW_UPS = int(2 * FOLLOW_UP_FRACTION * PROMPTS_PER_FILE)  # per file; with more, the seeds are running out
MAX_BEFORE_LENGTH = 240  # tokens of the conversation before a follow-up
MAX_WORD_OVERLAP = 0.7  # of two prompts' words; above it one counts as a rewording of the other
MIN_LETTERS, MIN_ASCII_FRACTION = 8, 0.9

Message = dict[str, str]


class HeldOut:
    """The held-out prompts, which no training data may contain."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._words = [words(prompt.text) for file in files for prompt in read_prompts(file)]

    def is_near(self, text: str) -> bool:
        """Return whether a text is a held-out prompt, or a rewording of one."""
        own = words(text)
        return any(len(own & other) > MAX_WORD_OVERLAP * len(own | other) for other in self._words)


def words(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case."""
    return frozenset(re.findall(r"\w+", text.lower()))


def write_prompts(path: Path, conversations: Sequence[Sequence[Message]]) -> None:
    """Write a prompt file, complete or not at all."""
    partial = path.with_suffix(".part")
    lines = [json.dumps({"messages": messages}) + "\n" for messages in conversations]
    partial.write_text("".join(lines), encoding="utf8")
    partial.replace(path)


def read_conversations(path: Path) -> list[list[Message]]:
    """Return the conversations of a prompt file, each ending with a user's turn."""
    return [json.loads(line)["messages"] for line in path.read_text(encoding="utf8").splitlines()]


def one_turn(text: str) -> list[Message]:
    """Return a conversation of one user's turn."""
    return [{"role": "user", "content": text}]


def let_target_write_prompts(decoder: BatchDecoder, tokenizer: Any, number: int,
                 known: set[str]) -> list[list[Message]]:
    """Let the target write new user turns that are plain and do not repeat themselves; fewer than a file holds if it
    writes nothing new any more."""
    mark = "@@"
    before_turn = tokenizer.apply_chat_template(one_turn(mark), tokenize=False).split(mark)[0]
    prompt = tokenizer.encode(before_turn, add_special_tokens=False)
    conversations: list[list[Message]] = []
    tries = empty_batches = 0
    while len(conversations) < PROMPTS_PER_FILE and empty_batches < MAX_EMPTY_BATCHES:
        choice = AnswerSampling(TEMPERATURE, TOP_P, seed=1000 * number + tries)
        tries, count = tries + 1, len(conversations)
        for turn in write_answers(decoder, [prompt] * ROWS, MAX_TURN_LENGTH, tokenizer.eos_token_id, choice):
            text = tokenizer.decode(turn.tokens[:-1])
            if turn.ended and not is_repetitive(turn.tokens) and is_plain(text) and text not in known:
                known.add(text)
                conversations.append(one_turn(text))
        empty_batches = 0 if len(conversations) > count else empty_batches + 1
    return conversations[:PROMPTS_PER_FILE]


def is_plain(text: str) -> bool:
    """Return whether a text could have been typed by a person in English."""
    ascii_letters = sum(letter.isascii() for letter in text)
    return (text == text.strip() and len(text) >= MIN_LETTERS and ascii_letters > MIN_ASCII_FRACTION * len(text)
            and "<|" not in text and text.replace("\n", " ").isprintable())


def draw_seeded(number: int, known: set[str], before: Sequence[Path],
                last_exchange: Callable[[AnswerRow], list[Message]], kinds: tuple[str, ...]) -> list[list[Message]]:
    """Draw seed prompts of these kinds; some follow a conversation from an answered shard of ``before``."""
    draw = random.Random(f"{number} {' '.join(kinds)}")
    earlier = [row for row in read_shard(draw.choice(before)) if row.ended and len(row.conversation) < MAX_BEFORE_LENGTH
               ] if before else []
    conversations: list[list[Message]] = []
    for _ in range(DRAWS_PER_PROMPT * PROMPTS_PER_FILE):
        if len(conversations) == PROMPTS_PER_FILE:
            break
        if earlier and draw.random() < FOLLOW_UP_FRACTION:
            conversation = [*last_exchange(draw.choice(earlier)), *one_turn(follow_up(draw))]
            if conversation not in conversations and sum(len(row) > 1 for row in conversations) < MAX_FOLLOW_UPS:
                conversations.append(conversation)
            continue
        text = seed_prompt(draw, kinds)
        if text not in known:
            known.add(text)
            conversations.append(one_turn(text))
    return conversations
