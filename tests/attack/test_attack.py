"""Every case in ``kept``, which failed once, is tried again; the quickest areas also try a few drawn cases, always the
same ones."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.commands import VERBS
from tests.attack.area import KEPT, Area, area_named, attack
from tests.attack.command_line import flags_of, valid_words
from tests.engine.commands.test_words import PAGE


@pytest.fixture(scope="module")
def areas() -> Iterator[Callable[[str], Area]]:
    """Provide areas by name, each opened once; closing them checks what all cases did together."""
    opened: dict[str, Area] = {}
    yield lambda name: opened.setdefault(name, opened.get(name) or area_named(name))
    for area in opened.values():
        area.close()


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_case_is_answered(path: Path, areas: Callable[[str], Area]) -> None:
    kept = json.loads(path.read_text("utf8"))
    if kept["area"] == "browser":
        pytest.importorskip("playwright")
    areas(kept["area"]).trial(kept["case"])


@pytest.mark.parametrize("verb", [*VERBS, PAGE])
def test_every_flag_has_valid_words_to_draw(verb: str) -> None:
    takers = [action for action in flags_of(verb) if action.nargs != 0]
    assert all(valid_words(action) for action in takers) and takers


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("traces", 200), ("command_line", 120), ("http", 80)])
def test_hostile_cases_are_answered(
        name: str, count: int, areas: Callable[[str], Area], tmp_path: Path) -> None:
    kept = tmp_path / "case.json"
    report = attack(areas(name), name, name, count, kept)
    assert not report, kept.read_text("utf8")
