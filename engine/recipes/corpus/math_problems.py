"""The math domain of the corpus: word problems whose arithmetic is spelled out step by step."""

from __future__ import annotations

import random

from engine.recipes.corpus.data import rows
from engine.recipes.corpus.items import Item
from engine.recipes.corpus.math_template import Template, fill

TEMPLATES = rows("math_problems", Template)


def make_math(random: random.Random) -> Item:
    """One math problem drawn with the given generator; ``check`` is the final answer as a string."""
    return fill(random.choice(TEMPLATES), random)
