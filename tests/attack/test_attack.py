"""Every case in ``kept`` failed once and is tried again; of the quickest areas, so are a few drawn cases, always the
same."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.commands import VERBS
from tests.attack.area import KEPT, Area, area_named, attack
from tests.attack.command_line import flags_of, sound
from tests.engine.commands.test_words import PAGE


@pytest.fixture(scope="module")
def areas() -> Iterator[Callable[[str], Area]]:
    """Areas by name, each opened once; that all cases together broke nothing shows when they are closed."""
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
def test_every_flag_has_words_that_it_takes(verb: str) -> None:
    takers = [action for action in flags_of(verb) if action.nargs != 0]
    assert all(sound(action) for action in takers) and takers


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("traces", 200), ("command_line", 120), ("http", 80)])
def test_hostile_cases_are_answered(
        name: str, count: int, areas: Callable[[str], Area], tmp_path: Path) -> None:
    kept = tmp_path / "case.json"
    report = attack(areas(name), name, name, count, kept)
    assert not report, kept.read_text("utf8")
