"""The attack knows a sound word for every flag: a new type of flag is attacked by itself, or said here."""

import shutil

import pytest

from engine.commands import VERBS
from tests.attack.command_line import CommandLines, flags_of, sound
from tests.engine.commands.test_words import PAGE


@pytest.mark.parametrize("verb", [*VERBS, PAGE])
def test_every_flag_has_words_that_it_takes(verb: str) -> None:
    takers = [action for action in flags_of(verb) if action.nargs != 0]
    assert all(sound(action) for action in takers) and takers


@pytest.mark.slow
def test_a_case_that_removes_the_files_of_later_ones_does_not_end_the_attack() -> None:
    area = CommandLines()
    case = {"words": ["record", "--lessons", "@file", "--out", "@folder"], "file": "{"}
    area.trial(case)
    shutil.rmtree(area._folder.name)
    area.trial(case)
    area._places["@file"].unlink()
    area.trial(case)
    area._places["@file"].unlink()
    area._places["@file"].mkdir()
    area.trial(case)
    area.close()
