"""The shipped recordings: their programs run, their sums are right or marked as wrong, and each rig's first recording
has a tree to film."""

import re
from collections.abc import Mapping
from itertools import zip_longest

import numpy as np
import pytest

import app
from engine.commands.record import check_film_round, plans_file, read_plans
from engine.errors import RequestError
from engine.records import Round
from engine.trace import Piece, committed_ids, join_tokens, pieces_of
from recipes.confined import runs_to_its_end


def texts() -> dict[str, str]:
    """Return the texts of the shipped recordings by name."""
    return {name: join_tokens(pieces_of(recording.trace), committed_ids(recording.trace.rounds))
            for name, recording in app.library(None, "demo").recordings.items()}


def test_a_recorded_sum_is_right_or_marked_as_wrong() -> None:
    recordings, wrong = app.library(None, "demo").recordings, set()
    for name, text in texts().items():
        for chain in re.findall(r"\d[\d +*/-]*(?: = \d[\d +*/-]*)+", text):
            wrong |= {name} if len({eval(side) for side in chain.split(" = ")}) > 1 else set()
    assert wrong == {"arithmetic"}
    for name in wrong:
        assert "wrong" in recordings[name].trace.header.title and "wrong" in recordings[name].trace.header.note


HOLDS = {"is_palindrome": 'assert is_palindrome("level") and is_palindrome("") and not is_palindrome("hello")',
         "ages_together": "assert ages_together(4, 6) == 28", "working_seats": "assert working_seats(25, 32, 3) == 71",
         "at_least_4": 'assert at_least_4({"lena": 10, "cleo": 1}) == {"lena": 10}'}


def test_every_recorded_program_runs_and_solves_its_task() -> None:
    programs = {program for text in texts().values() for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL)}
    defined = {name: program for program in programs for name in re.findall(r"def (\w+)", program)}
    assert defined.keys() == HOLDS.keys()
    assert not runs_to_its_end("assert False")
    for name, program in defined.items():
        assert runs_to_its_end(f"{program}\n{HOLDS[name]}"), program


def film_score(pieces: Mapping[int, Piece], round_: Round) -> float:
    """Return the score of a round for the film, as in assets/stage/film.js."""
    tree, keep = round_.tree, round_.acceptance.keep.tolist()
    texts = [join_tokens(pieces, [token]) for token in tree.tokens]
    children = [np.flatnonzero(tree.parents == node).tolist() for node in range(len(tree))]
    forks = [child for node, after in zip_longest(keep, keep[1:]) for child in
             [child for child in children[node] if child != after][0 if after else 1:]]
    words = {node for node, text in enumerate(texts) if re.search(r"^( [^\W\d_]{2}|[A-Z][a-z]| ?\d)", text)
             and not any(re.search(r"^[a-z'’]", texts[child]) for child in children[node])}
    kept_words, fork_words = (len(words.intersection(nodes)) + len(nodes) / 10 for nodes in (keep, forks))
    return kept_words * (2 + min(4, fork_words) if forks else 1)


@pytest.mark.parametrize("rig", ["demo", "smollm2"])
def test_the_films_round_has_branches_and_most_words(rig: str) -> None:
    recorded, plans = app.library(None, rig).recordings, read_plans(plans_file(rig))
    named = [plan for plan in plans if plan.film_round]
    assert plans[0] in named and len(named) > 1
    for plan in named:
        trace = recorded[plan.name].trace
        worths = [film_score(pieces_of(trace), round_) for round_ in trace.rounds]
        assert plan.film_round == worths.index(max(worths)) + 1, plan.name
        check_film_round(trace, plan)
    plain = next(recording.trace for recording in recorded.values() if not recording.trace.header.drafters)
    with pytest.raises(RequestError, match="0 refused"):
        check_film_round(plain, plans[0])


@pytest.mark.parametrize("rig", ["demo", "smollm2"])
def test_the_opening_recording_was_faster_than_plain_decoding(rig: str) -> None:
    library = app.library(None, rig)
    first = library.first()
    comparison = library.comparison(first.name) if first else None
    assert first and comparison and comparison.speed.outcome == "faster"
    assert first.name == read_plans(plans_file(rig))[0].name
