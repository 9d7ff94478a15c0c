"""Which drafters the page offers: the rig's own choice first, then as many others as the method takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from explorer.run_form import OWN, choosing_drafters, names_of
from tests.explorer.scripted import ScriptedSource


def offered(method: str, *names: Any) -> tuple[list[str], str, bool]:
    """The words of the list, the one that is chosen, and whether another one can be."""
    made = choosing_drafters(ScriptedSource(), method, names)
    words = {value: word for word, value in made["choices"]}
    return list(words.values()), words[made["value"]], made["interactive"]


def test_the_rigs_own_choice_comes_first_and_stands() -> None:
    assert offered("ddtree") == (["the rig's own: story", "code", "spare"], "the rig's own: story", True)
    words, chosen, _ = offered("joint")
    assert words == ["the rig's own: story + code", "story + spare", "code + spare"] and chosen == words[0]


def test_a_method_that_leaves_no_choice_offers_none() -> None:
    assert offered("autoregressive") == (["none"], "none", False)
    source = ScriptedSource()
    source.drafters = ("story",)
    assert not choosing_drafters(source, "ddtree")["interactive"]


def test_what_was_chosen_stays_where_it_fits() -> None:
    assert offered("ddtree", "spare")[1] == "spare"
    assert offered("joint", "spare", "code")[1] == "spare + code"  # in its own order
    assert offered("joint", "story", "code")[1] == "the rig's own: story + code"


@pytest.mark.parametrize("names", [["nobody"], ["story", "code"], [["story"]], [7], [None, None], ["</script>"]])
def test_what_fits_nothing_becomes_the_rigs_own(names: list[Any]) -> None:
    assert offered("ddtree", *names)[1] == "the rig's own: story"


def test_a_value_of_the_list_is_read_back_and_nothing_else_is() -> None:
    for word, value in choosing_drafters(ScriptedSource(), "joint")["choices"][1:]:
        assert " + ".join(names_of(value)) == word
    assert [names_of(value) for value in (OWN, "", None, 7, "{", "{}", "[1]", json.dumps("a"), ["a"])] == [[]] * 9
