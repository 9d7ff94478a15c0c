from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of kept files of this test's own."""
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"
