"""The math domain of the corpus: word problems whose arithmetic is spelled out step by step."""

from __future__ import annotations

import random

from engine.training.corpus.items import Item
from engine.training.corpus.math_bare import BARE
from engine.training.corpus.math_garden import GARDEN
from engine.training.corpus.math_kitchen import KITCHEN
from engine.training.corpus.math_school import SCHOOL
from engine.training.corpus.math_shopping import SHOPPING
from engine.training.corpus.math_template import Template, fill
from engine.training.corpus.math_travel import TRAVEL
from engine.training.corpus.math_work import WORK

TEMPLATES: tuple[Template, ...] = SHOPPING + TRAVEL + KITCHEN + SCHOOL + GARDEN + WORK + BARE


def make_math(random: random.Random) -> Item:
    """One math problem drawn with the given generator; ``check`` is the final answer as a string."""
    return fill(random.choice(TEMPLATES), random)
