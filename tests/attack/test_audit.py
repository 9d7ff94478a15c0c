"""What an audit says: holes fail, and what was not checked is not passed off as sound."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.attack.audit import main, verdict

HOLE = {"id": "X-1", "fix_versions": ["2"]}


@pytest.mark.parametrize(("packages", "status", "report"), [
    ([{"name": "a", "version": "1", "vulns": [HOLE]}], 1, "a 1: X-1, mended in 2"),
    ([{"name": "a", "version": "1", "vulns": []}], 0, "No hole is known in the 1 locked packages."),
    ([{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "?"}], 0, "1 of which it did not know"),
    ([{"name": "b", "skip_reason": "not found"}], 0, "NOT CHECKED for known holes: the service knows none")])
def test_what_is_known_is_said(packages: list[Any], status: int, report: str) -> None:
    result = verdict(json.dumps({"dependencies": packages}), 0)
    assert result[0] == status and report in result[1]


def test_without_the_service_nothing_is_checked_and_that_is_said(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "NOT CHECKED" in verdict("Connection refused", 1)[1]
    assert main(str(tmp_path / "nowhere"), "requirements.lock") == 0
    assert capsys.readouterr().out == ("NOT CHECKED for known holes: the service cannot be asked from here "
                                       "(FileNotFoundError).\n")
