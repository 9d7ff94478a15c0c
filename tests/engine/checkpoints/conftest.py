from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty cache folder for each test."""
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"
