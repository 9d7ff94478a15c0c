"""What a person filled in, as an ``Ask``: every field checked, one sentence for the first that does not fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from engine.errors import RequestError
from engine.methods import method_named, share_named
from engine.pace import FIXED, PACES
from engine.records import Ask, Sampling

LONGEST_PROMPT = 20_000  # characters; far above any rig's context, far below what slows the page down
LARGEST_BUDGET = 1024
LARGEST_SEED = 2**31 - 1


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
        pace=pace)


def _prompt(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    if not text.strip():
        raise RequestError("The prompt is empty; write at least one character, or pick a preset.")
    if len(text) > LONGEST_PROMPT:
        raise RequestError(
            f"The prompt has {len(text):,} characters; at most {LONGEST_PROMPT:,} are taken, so shorten it.")
    return text


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
