"""What once broke is tried again: every file in ``kept`` is a case that was answered wrongly before. And a few hundred
cases of the areas that take the shortest, always the same ones."""

import json
from functools import cache
from pathlib import Path

import pytest

from tests.attack.area import KEPT, area_named

opened = cache(area_named)


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_what_broke_once_breaks_no_more(path: Path) -> None:
    kept = json.loads(path.read_text("utf8"))
    if kept["area"] == "browser":
        pytest.importorskip("playwright")
    opened(kept["area"]).trial(kept["case"])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("traces", 1000), ("servers", 150)])
def test_hostile_cases_are_answered(name: str, count: int) -> None:
    area = opened(name)
    for case in area.cases(name, count):
        area.trial(case)
