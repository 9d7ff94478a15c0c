"""Names, things and places that fill the word problems."""

from __future__ import annotations

from collections.abc import Mapping

from engine.recipes.corpus.data import lists

WORDS = lists("math_words")
NAMES: tuple[tuple[str, str], ...] = (
    *((name, "she") for name in WORDS["she"]), *((name, "he") for name in WORDS["he"]))
PRONOUNS: Mapping[str, Mapping[str, str]] = {
    "she": {"he": "she", "his": "her", "him": "her", "He": "She", "His": "Her"},
    "he": {"he": "he", "his": "his", "him": "him", "He": "He", "His": "His"},
}
THINGS: Mapping[str, tuple[str, ...]] = WORDS["things"]  # singular forms
IRREGULAR: Mapping[str, str] = WORDS["irregular"]  # plurals of those that do not simply take an "s"
CONTAINERS, SHOPS, TOWNS, DAYS = WORDS["containers"], WORDS["shops"], WORDS["towns"], WORDS["days"]
FIRST, THEN, SO = WORDS["first"], WORDS["then"], WORDS["so"]


def plural(singular: str) -> str:
    """The plural of a thing of the tables."""
    return IRREGULAR.get(singular, singular + "s")


def with_article(singular: str) -> str:
    """The thing with its indefinite article: "an apple", "a pear"."""
    return ("an " if singular[0] in "aeiou" else "a ") + singular
