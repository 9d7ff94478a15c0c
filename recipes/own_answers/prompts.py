"""Prompt files for the target to answer: JSON lines with ``messages``, written once, never near a held-out prompt.

Two in three are written by the target itself, which is asked for a user's turn; the others begin with the seeds, and
some of those go on with a conversation that was answered before.

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
# How often each kind is drawn. Code has a share, so that there is enough for a drafter of its own.
KINDS: Mapping[str, float] = MappingProxyType({
    "tasks": 0.30, "code_tasks": 0.18, "snippets": 0.03, "text_tasks": 0.14, "letter_tasks": 0.06, "greetings": 0.03,
    "questions": 0.12, "sums": 0.06, "list_tasks": 0.08})
FILLED_FROM: Mapping[str, str] = MappingProxyType({
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
    """Return the task with an item in each of its braces."""
    named = re.findall(r"{(\w+)}", task)
    values = {field: str(draw.randint(*NUMBERS[field])) for field in named if field in NUMBERS}
    for field in named:
        if field in FILLED_FROM:
            one, other = draw.sample(lines(FILLED_FROM[field]), 2)
            values |= {field: one, "other": other}
    text = re.sub(r"{(\w+)}", lambda match: values.get(match[1], match[0]), task)
    return text[0].upper() + text[1:] if draw.random() < 0.9 else text


def follow_up(draw: random.Random) -> str:
    """Return a follow-up turn that fits any answer."""
    return draw.choice(lines("follow_ups"))


PROMPTS_A_FILE = 384
ROWS = 256
MAX_TURN_LENGTH = 112  # tokens
WARM = 1.0
TOP_P = 0.95
MAX_BARREN = 8  # batches of turns, or files of answers, in a row without a new one
TRIES = 20  # for each seed prompt: a kind has a limited number of them
FOLLOW_UPS = 0.1  # the share of seeded prompts that continue a conversation
MAX_FOLLOW_UPS = int(2 * FOLLOW_UPS * PROMPTS_A_FILE)  # of a file: with more, the seeds are running out
MAX_BEFORE_LENGTH = 240  # tokens of a conversation that is continued
SIMILAR = 0.7  # of both prompts' words: with more in common, a prompt counts as a rewording of a held-out one
MIN_LETTERS, PLAIN = 8, 0.9

Message = dict[str, str]


class HeldOut:
    """The held-out prompts, which no training data may contain."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._words = [words(prompt.text) for file in files for prompt in read_prompts(file)]

    def near(self, text: str) -> bool:
        """Return whether a text is a held-out prompt, or a rewording of one."""
        these = words(text)
        return any(len(these & other) > SIMILAR * len(these | other) for other in self._words)


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


def write_prompts_itself(decoder: BatchDecoder, tokenizer: Any, number: int,
                 known: set[str]) -> list[list[Message]]:
    """Let the target write user turns: not empty, not looping, in plain letters, and without repeats; fewer than a
    file holds if it writes nothing new any more."""
    mark = "@@"
    before = tokenizer.apply_chat_template(one_turn(mark), tokenize=False).split(mark)[0]
    prompt = tokenizer.encode(before, add_special_tokens=False)
    conversations: list[list[Message]] = []
    tries = barren = 0
    while len(conversations) < PROMPTS_A_FILE and barren < MAX_BARREN:
        choice = AnswerSampling(WARM, TOP_P, seed=1000 * number + tries)
        tries, barren, before_it = tries + 1, barren + 1, len(conversations)
        for turn in write_answers(decoder, [prompt] * ROWS, MAX_TURN_LENGTH, tokenizer.eos_token_id, choice):
            text = tokenizer.decode(turn.tokens[:-1])
            if turn.ended and not is_repetitive(turn.tokens) and is_plain(text) and text not in known:
                known.add(text)
                conversations.append(one_turn(text))
        if len(conversations) > before_it:
            barren = 0
    return conversations[:PROMPTS_A_FILE]


def is_plain(text: str) -> bool:
    """Return whether a text reads like something that a person types in English."""
    plain = sum(letter.isascii() for letter in text)
    return (text == text.strip() and len(text) >= MIN_LETTERS and plain > PLAIN * len(text)
            and "<|" not in text and text.replace("\n", " ").isprintable())


def draw_seeded(number: int, known: set[str], before: Sequence[Path],
                last_exchange: Callable[[AnswerRow], list[Message]], kinds: tuple[str, ...]) -> list[list[Message]]:
    """Draw seed prompts of these kinds, some of them after a conversation from one of the answered shards
    ``before``."""
    draw = random.Random(f"{number} {' '.join(kinds)}")
    earlier = [row for row in read_shard(draw.choice(before)) if row.ended and len(row.conversation) < MAX_BEFORE_LENGTH
               ] if before else []
    conversations: list[list[Message]] = []
    for _ in range(TRIES * PROMPTS_A_FILE):
        if len(conversations) == PROMPTS_A_FILE:
            break
        if earlier and draw.random() < FOLLOW_UPS:
            conversation = [*last_exchange(draw.choice(earlier)), *one_turn(follow_up(draw))]
            if conversation not in conversations and sum(len(row) > 1 for row in conversations) < MAX_FOLLOW_UPS:
                conversations.append(conversation)
            continue
        text = seed_prompt(draw, kinds)
        if text not in known:
            known.add(text)
            conversations.append(one_turn(text))
    return conversations
