"""What the shipped recordings show: their programs run, their sums are right or said to be wrong, and the opening one
of each rig has a tree to film."""

import re

import pytest

import app
from engine.commands.record import MIN_BRANCHES, MIN_REFUSED, check_film_round, lessons_of, read_lessons
from engine.errors import RequestError
from engine.trace import committed_ids, joined, pieces_of
from recipes.confined import runs_to_its_end


def texts() -> dict[str, str]:
    """What the shipped recordings wrote, by name."""
    return {name: joined(pieces_of(lesson.trace), committed_ids(lesson.trace.rounds))
            for name, lesson in app.library(None, "demo").lessons.items()}


def test_a_recorded_sum_is_right_or_marked_as_wrong() -> None:
    lessons, wrong = app.library(None, "demo").lessons, set()
    for name, text in texts().items():
        for chain in re.findall(r"\d[\d +*/-]*(?: = \d[\d +*/-]*)+", text):
            wrong |= {name} if len({eval(side) for side in chain.split(" = ")}) > 1 else set()
    assert wrong == {"arithmetic"}
    for name in wrong:
        assert "wrong" in lessons[name].trace.header.title and "wrong" in lessons[name].trace.header.note


HOLDS = {"is_palindrome": 'assert is_palindrome("level") and is_palindrome("") and not is_palindrome("hello")',
         "ages_together": "assert ages_together(4, 6) == 28", "working_seats": "assert working_seats(25, 32, 3) == 71",
         "at_least_4": 'assert at_least_4({"lena": 10, "cleo": 1}) == {"lena": 10}'}


def test_every_recorded_program_runs_and_does_what_was_asked() -> None:
    programs = {program for text in texts().values() for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL)}
    defined = {name: program for program in programs for name in re.findall(r"def (\w+)", program)}
    assert defined.keys() == HOLDS.keys()
    assert not runs_to_its_end("assert False")
    for name, program in defined.items():
        assert runs_to_its_end(f"{program}\n{HOLDS[name]}"), program


@pytest.mark.parametrize("rig", ["demo", "smollm2"])
def test_the_opening_recording_shows_a_tree_and_was_not_slower_than_plain_decoding(rig: str) -> None:
    """The film's round is chosen as in assets/stage/film.js."""
    library = app.library(None, rig)
    first = library.first()
    comparison = library.comparison(first.name) if first else None
    assert first and comparison and comparison.speed.standing == "faster"
    rounds = first.trace.rounds
    kept = [len(round_.acceptance.keep) for round_ in rounds]
    bushy = [len(round_.tree) - len(set(round_.tree.parents[1:].tolist())) >= MIN_BRANCHES
             and len(round_.tree) - count >= MIN_REFUSED for round_, count in zip(rounds, kept, strict=True)]
    shown = max(range(len(rounds)), key=lambda number: kept[number] * (3 if bushy[number] else 1))
    assert bushy[shown] and kept[shown] > 3
    lesson = next(lesson for lesson in read_lessons(lessons_of(rig)) if lesson.name == first.name)
    assert lesson.film_round == shown + 1
    plain = next(other.trace for other in library.lessons.values() if not other.trace.header.drafters)
    with pytest.raises(RequestError, match="0 refused"):
        check_film_round(plain, lesson)
