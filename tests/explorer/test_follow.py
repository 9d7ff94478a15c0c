"""A loop that runs elsewhere is followed round by round, promptly, by several browsers, and its folder is listed."""

import asyncio
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.recorder import Recorder
from explorer.browser_calls import browser_call
from explorer.follow import Follow

ROUND = {"tokens": [7, 3, 4], "parents": [0, 0, 1], "keep": [0, 1], "bonus": 9}
PATIENCE_SECONDS = 20


def write_run(path: Path, rounds: int = 1, when: int | None = None) -> None:
    """Write a run of that many rounds, last modified at ``when``."""
    with Recorder(path) as recorder:
        for _ in range(rounds):
            recorder.round(**ROUND)
    if when is not None:
        os.utime(path, (when, when))


@pytest.fixture(autouse=True)
def _search_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.follow.SEARCH_SECONDS", 0.05)


class Browser:
    """Follow as a browser does: keep the latest run and its lines."""

    def __init__(self, follow: Follow) -> None:
        self._loop, self._thread = asyncio.new_event_loop(), ThreadPoolExecutor(1)
        self._lines = follow.lines()
        self.state: Any = {}
        self.listed: list[str] = []
        self.rounds: list[Any] = []
        self.end: Any = None

    def read(self) -> None:
        """Read the next lines."""
        coming = asyncio.wait_for(anext(self._lines), PATIENCE_SECONDS)
        for row in self._thread.submit(self._loop.run_until_complete, coming).result().splitlines():
            line = json.loads(row)
            self.listed = line.get("listed", self.listed)
            self.state = line if "state" in line else self.state
            self.end = line.get("end", self.end)
            if "header" in line:
                self.rounds, self.end = [], None
            if "round" in line:
                self.rounds.append(line["round"])

    def until(self, rounds: int, state: str = "running") -> str:
        """Read until a run has that many rounds and that state; return its name."""
        while len(self.rounds) < rounds or self.state.get("state") != state:
            self.read()
        return str(self.state["run"])


def test_all_followers_see_rounds_soon_after_they_were_made(tmp_path: Path) -> None:
    follow, delays = Follow(tmp_path / "run.jsonl.gz"), []
    one, other = Browser(follow), Browser(follow)
    with Recorder(tmp_path / "run.jsonl.gz", method="theirs", engine="my loop") as recorder:
        for count in range(1, 9):
            began = time.monotonic()
            recorder.round(**ROUND)
            one.until(count)
            delays.append(time.monotonic() - began)
    assert sorted(delays)[len(delays) // 2] < 0.2
    assert one.until(8, "done") == other.until(8, "done") == "run.jsonl.gz" and one.end["rounds"] == 8
    assert one.rounds == other.rounds


def test_the_newest_run_of_a_folder_is_followed_and_all_are_listed(tmp_path: Path) -> None:
    write_run(tmp_path / "old.jsonl", when=1)
    (tmp_path / "notes.txt").write_text("no run")
    browser = Browser(follow := Follow(tmp_path))
    assert browser.until(1, "done") == "old.jsonl"
    with Recorder(tmp_path / "new.jsonl.gz") as recorder:
        for _ in range(3):
            recorder.round(**ROUND)
        assert browser.until(3) == "new.jsonl.gz" and browser.listed == ["new.jsonl.gz", "old.jsonl"]
    new = follow.trace("new.jsonl.gz")
    assert new is not None and len(new.entries) == 3 and follow.trace("../new.jsonl.gz") is None


def test_a_run_that_restarts_is_shown_from_its_start(tmp_path: Path) -> None:
    browser = Browser(Follow(tmp_path / "run.jsonl"))
    for count in (3, 1):
        write_run(tmp_path / "run.jsonl", count)
        while not browser.end or browser.end["rounds"] != count:
            browser.read()
    assert len(browser.rounds) == 1


@pytest.mark.parametrize("broken", ["glob", "stat"])
def test_a_temporary_error_ends_no_following(tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, failed = getattr(Path, broken), list[Path]()

    def fails_once(self: Path, *given: Any, **named: Any) -> Any:
        if self.is_relative_to(tmp_path) and not failed:
            failed.append(self)
            raise (OSError if broken == "glob" else RuntimeError)("once")
        return usual(self, *given, **named)
    browser = Browser(Follow(tmp_path))
    write_run(tmp_path / "run.jsonl")
    monkeypatch.setattr(Path, broken, fails_once)
    assert browser.until(1, "done") == "run.jsonl" and failed


def test_a_file_that_is_no_trace_is_reported_and_file_names_need_not_be_utf8(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff.jsonl")).write_text("nonsense\n")
    os.utime(os.fsencode(tmp_path) + b"/bad\xff.jsonl", (1, 1))
    browser = Browser(follow := Follow(tmp_path))
    browser.until(0, "error")
    assert browser.state["message"].startswith("bad")
    write_run(tmp_path / os.fsdecode(b"new\xe9.jsonl"))
    assert browser.until(1, "done") == r"new\xe9.jsonl" and browser.listed == [r"new\xe9.jsonl", r"bad\xff.jsonl"]
    refused = browser_call("export", lambda _: follow.trace(r"bad\xff.jsonl"))({})
    assert refused["error"].startswith("bad")
