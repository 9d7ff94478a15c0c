"""What once broke is tried again: every file in ``kept`` is a case that was answered wrongly before."""

import json
from functools import cache
from pathlib import Path

import pytest

from tests.attack.area import Area
from tests.attack.one_area import area_named

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))


@cache
def area_of(name: str) -> Area:
    """Each area is opened once."""
    return area_named(name)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_broke_once_breaks_no_more(path: Path) -> None:
    kept = json.loads(path.read_text("utf8"))
    if kept["area"] == "browser":
        pytest.importorskip("playwright")
    area_of(kept["area"]).trial(kept["case"])
