"""An audit fails if a vulnerability is known, and never reports an unchecked package as safe."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.attack.audit import main

VULNERABLE = {"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}
SAFE, UNKNOWN = {"name": "b", "version": "1", "vulns": []}, {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(("packages", "status", "printed"), [
    ([VULNERABLE, SAFE], 1, "a 1: X-1, mended in 2"), ([SAFE, UNKNOWN], 0, "No hole is known in 1 of the 2"),
    ([UNKNOWN], 0, "NOT CHECKED"), (None, 0, "NOT CHECKED")])
def test_vulnerable_and_unchecked_packages_are_printed(
        packages: list[Any] | None, status: int, printed: str, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "pip-audit"
    if packages is not None:
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({'dependencies': packages})}\nEND\n", "utf8")
        program.chmod(0o755)
    assert main(str(program), "requirements.lock") == status
    assert printed in capsys.readouterr().out
