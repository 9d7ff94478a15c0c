"""What once broke is tried again: every file in ``kept`` is a case that was answered wrongly before. And some hundreds
of cases of the areas that take the shortest, always the same ones."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.area import KEPT, Area, area_named


@pytest.fixture(scope="module")
def areas() -> Iterator[dict[str, Area]]:
    """The areas that tests have opened, by name."""
    opened: dict[str, Area] = {}
    yield opened
    for area in opened.values():
        area.close()


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_what_broke_once_breaks_no_more(path: Path, areas: dict[str, Area]) -> None:
    kept = json.loads(path.read_text("utf8"))
    if kept["area"] == "browser":
        pytest.importorskip("playwright")
    area = areas[kept["area"]] = areas.get(kept["area"]) or area_named(kept["area"])
    area.trial(kept["case"])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("traces", 400), ("servers", 100)])
def test_hostile_cases_are_answered(name: str, count: int) -> None:
    area = area_named(name)
    for case in area.cases(name, count):
        area.trial(case)
    area.close()
