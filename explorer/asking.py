"""What a person filled in, as an ``Ask``: every field checked, one sentence for the first that does not fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from engine.errors import RequestError
from engine.methods import METHODS, method_named, share_named
from engine.pace import FIXED, PACES
from engine.records import Ask, Sampling
from engine.turns import Turn, turns_from

LONGEST_PROMPT = 20_000  # characters; far above any rig's context, far below what slows the page down
LARGEST_BUDGET = 1024
LARGEST_SEED = 2**31 - 1
MOST_TURNS = 64
LONGEST_CONVERSATION = 100_000  # characters of all turns
MOST_HEADS = max(row.heads for row in METHODS.values())
LONGEST_NAME = 200  # characters of a head's


@dataclass(frozen=True)
class Form:
    """The controls' values as they arrive: numbers may be missing, text, fractions or out of range."""

    prompt: Any
    method: Any
    budget: Any
    split: Any = "total"
    temperature: Any = 0.0
    top_k: Any = 0
    top_p: Any = 1.0
    seed: Any = 0
    max_tokens: Any = 256
    pace: Any = FIXED
    heads: Any = ()
    turns: Any = ()


def ask_from(form: Form) -> Ask:
    """The checked ask; RequestError says which field is wrong, what was seen and what is allowed."""
    prompt = _prompt(form.prompt)
    method = method_named(str(form.method))
    split = str(form.split or "total")
    share_named(method, split)
    top_p = number("top-p", form.top_p, 0, 1)
    if top_p == 0:
        raise RequestError("top-p is 0, which leaves no token to choose; it has to lie above 0 and be at most 1.")
    sampling = Sampling(
        temperature=number("The temperature", form.temperature, 0, 2), top_k=whole("top-k", form.top_k, 0, 100_000),
        top_p=top_p, seed=whole("The seed", form.seed, 0, LARGEST_SEED))
    pace = str(form.pace or FIXED)
    if pace not in PACES:
        raise RequestError(f"There is no pace {pace[:20]!r}; choose one of {', '.join(PACES)}.")
    return Ask(
        prompt=prompt, method=str(form.method), budget=whole("The node budget", form.budget, 0, LARGEST_BUDGET),
        max_tokens=whole("Max tokens", form.max_tokens, 1, 4096), sampling=sampling, split=split,
        pace=pace, heads=_heads(form.heads), turns=checked_turns(form.turns))


def _prompt(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    if not text.strip():
        raise RequestError("The prompt is empty; write at least one character, or pick a preset.")
    if len(text) > LONGEST_PROMPT:
        raise RequestError(
            f"The prompt has {len(text):,} characters; at most {LONGEST_PROMPT:,} are taken, so shorten it.")
    return text


def _heads(value: Any) -> tuple[str, ...]:
    """Which heads there are, and how many a method takes, the rig says."""
    names = () if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise RequestError(f"The heads are {str(value)[:40]!r}; they have to be a list of the rig's heads by name.")
    if len(names) > MOST_HEADS:
        raise RequestError(f"There are {len(names)} heads; at most {MOST_HEADS} draft in any method.")
    if long := [name for name in names if len(name) > LONGEST_NAME]:
        raise RequestError(f"There is no head {long[0][:20]!r}…; a name has at most {LONGEST_NAME} characters.")
    return tuple(names)


def checked_turns(value: Any) -> tuple[Turn, ...]:
    """The conversation before the prompt, within bounds; RequestError as for ``ask_from``."""
    turns = turns_from(value)
    if len(turns) > MOST_TURNS:
        raise RequestError(f"There are {len(turns)} turns; at most {MOST_TURNS} are taken, so leave the first out.")
    length = sum(len(text) for _, text in turns)
    if length > LONGEST_CONVERSATION:
        raise RequestError(f"The turns have {length:,} characters; at most {LONGEST_CONVERSATION:,} are taken, so "
                           "leave the first out.")
    return turns


def number(name: str, value: Any, least: float, most: float) -> float:
    """A number in a range; ``name`` begins the sentence of the RequestError."""
    allowed = f"it has to be a number from {least:g} to {most:g}"
    if value is None or value == "":
        raise RequestError(f"{name} is empty; {allowed}.")
    try:
        found = float(value)
    except (TypeError, ValueError) as error:
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
