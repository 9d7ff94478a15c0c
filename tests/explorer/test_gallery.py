"""A folder of traces as a static site."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.trace import dump, load
from explorer.gallery import main

TRACES = Path("assets/traces")


def gallery(monkeypatch: pytest.MonkeyPatch, *words: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["gallery", *map(str, words)])
    return main()


def test_each_run_has_its_figures_its_picture_and_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(TRACES / "welcome.jsonl.gz")
    (runs := tmp_path / "runs").mkdir()
    dump(run, runs / "temperature-0.5.jsonl.gz")
    evil = '<script>alert("${7*6}")</script>'
    dump(replace(run, header=replace(run.header, title=evil)), runs / 'a & "b".jsonl')
    (runs / "broken.jsonl").write_text("{")
    assert gallery(monkeypatch, runs, tmp_path / "site") == 0
    index = (tmp_path / "site" / "index.html").read_text("utf8")
    links = re.findall(r'href="([^"]+)"', index)
    assert len(links) == 2 and all((tmp_path / "site" / link).is_file() for link in links)
    assert run.header.title in index and "<script" not in index and "${7*6}" in index and index.count("<svg") == 2
    tau = sum(len(entry.round.acceptance.keep) for entry in run.entries) / len(run.entries)
    assert f"τ {tau:.2f}" in index and "http:" not in index and "https:" not in index


def test_a_path_that_is_not_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gallery(monkeypatch, tmp_path / "none", tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "traces").mkdir()
    assert gallery(monkeypatch, tmp_path / "traces", tmp_path / "file") == 1
    assert "file" in capsys.readouterr().err
