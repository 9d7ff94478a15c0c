"""The fields of forms: numbers in a range, texts, names, each checked with one sentence for what does not fit.

A checker is pydantic's; the RequestError that it raises passes through pydantic as it is, so that a person reads our
sentence and not a list of pydantic's.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from engine.errors import RequestError
from engine.requests.limits import MOST_NODES
from engine.requests.prompts import Turn, turns_from

LONGEST_PROMPT = 20_000  # characters; far above any rig's context, far below what slows the page down
LONGEST_CONVERSATION = 100_000  # characters of all turns
MOST_TURNS = 64
LONGEST_ANSWER = 4096  # tokens
MOST_TEMPERATURE = 2.0


def number(name: str, value: Any, least: float, most: float) -> float:
    """A number in a range; ``name`` begins the sentence of the RequestError."""
    allowed = f"it has to be a number from {least:g} to {most:g}"
    if value is None or value == "":
        raise RequestError(f"{name} is empty; {allowed}.")
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RequestError(f"{name} is {str(value)[:40]!r}; {allowed}.") from error
    if not math.isfinite(found) or not least <= found <= most:
        raise RequestError(f"{name} is {found:g}; {allowed}.")
    return found


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number in a range, as ``number``."""
    found = number(name, value, least, most)
    if found != int(found):
        raise RequestError(f"{name} is {found:g}; it has to be a whole number from {least} to {most}.")
    return int(found)


def in_range(name: str, least: float, most: float) -> BeforeValidator:
    """A field that is a number in a range."""
    return BeforeValidator(lambda value: number(name, value, least, most))


def whole_in(name: str, least: int, most: int) -> BeforeValidator:
    """A field that is a whole number in a range."""
    return BeforeValidator(lambda value: whole(name, value, least, most))


def asked_for() -> Any:
    """The default of a field that has to be filled in: None, which its checker refuses by the field's name."""
    return Field(default=None, validate_default=True)


def prompt(value: Any) -> str:
    """A prompt; RequestError for an empty one, and for one that is too long."""
    text = value if isinstance(value, str) else ""
    if not text.strip():
        raise RequestError("The prompt is empty; write at least one character, or pick a preset.")
    if len(text) > LONGEST_PROMPT:
        raise RequestError(
            f"The prompt has {len(text):,} characters; at most {LONGEST_PROMPT:,} are taken, so shorten it.")
    return in_whole_characters("The prompt", text)


def in_whole_characters(name: str, text: str) -> str:
    """The text; RequestError where it holds a lone surrogate, which cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{name} holds half of a character (a lone surrogate, at {error.start}); write whole "
                           "characters.") from error
    return text


def turns(value: Any) -> tuple[Turn, ...]:
    """The conversation before a prompt, within bounds; RequestError names the first turn that is not valid."""
    found = turns_from(value)
    if len(found) > MOST_TURNS:
        raise RequestError(f"There are {len(found)} turns; at most {MOST_TURNS} are taken, so leave the first out.")
    length = sum(len(text) for _, text in found)
    if length > LONGEST_CONVERSATION:
        raise RequestError(f"The turns have {length:,} characters; at most {LONGEST_CONVERSATION:,} are taken, so "
                           "leave the first out.")
    for place, (_, text) in enumerate(found, start=1):
        in_whole_characters(f"Turn {place}", text)
    return found


# What several forms ask for, each bounded here and nowhere else.
PromptField = Annotated[str, BeforeValidator(prompt)]
TurnsField = Annotated[tuple[Turn, ...], BeforeValidator(turns)]
BudgetField = Annotated[int, whole_in("The node budget", 0, MOST_NODES)]
TemperatureField = Annotated[float, in_range("The temperature", 0, MOST_TEMPERATURE)]
MaxTokensField = Annotated[int, whole_in("Max tokens", 1, LONGEST_ANSWER)]
