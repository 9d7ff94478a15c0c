"""The corpus's record: one prompt with its worked response, and the means to check an answer."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass

TEST_SHARE = 16  # one prompt in sixteen belongs to the test split


@dataclass(frozen=True)
class Item:
    """One conversation turn of the corpus.

    ``check`` says how a generated response is judged: for ``math`` the exact final answer (the text after
    ``Answer: ``), for ``code`` Python assertions to run after the function, for ``mixed`` assertions too,
    and the empty string where only the text itself can be read (``explain``).
    """

    domain: str
    prompt: str
    response: str
    check: str = ""


ItemMaker = Callable[[random.Random], Item]


def is_test(item: Item) -> bool:
    """Whether the item belongs to the test split: decided by its prompt alone, so that no prompt is in both."""
    digest = hashlib.sha256(item.prompt.encode("utf8")).digest()
    return digest[0] % TEST_SHARE == 0
