"""The attack knows a sound word for every flag: a new type of flag is attacked by itself, or said here."""

from __future__ import annotations

import pytest

from engine.commands import VERBS
from tests.attack.command_line import PAGE, flags_of, sound


@pytest.mark.parametrize("verb", [*VERBS, PAGE])
def test_every_flag_has_words_that_it_takes(verb: str) -> None:
    takers = [action for action in flags_of(verb) if action.nargs != 0]
    assert all(sound(action) for action in takers) and (takers or verb == "train")
