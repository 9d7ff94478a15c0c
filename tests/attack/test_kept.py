"""What once broke is tried again: every file in ``kept`` is a case that was answered wrongly before."""

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
