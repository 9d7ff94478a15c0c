"""A loop that runs elsewhere is followed: round by round, soon, by many, and its folder is listed."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.recorder import Recorder
from explorer.browser_calls import browser_call
from explorer.follow import Follow
from explorer.view import View

ROUND = {"tokens": [7, 3, 4], "parents": [0, 0, 1], "keep": [0, 1], "bonus": 9}
PATIENCE_SECONDS = 20


def write(path: Path, rounds: int = 1, when: int | None = None) -> None:
    """A run of so many rounds, last changed at that second."""
    with Recorder(path) as recorder:
        for _ in range(rounds):
            recorder.round(**ROUND)
    if when is not None:
        os.utime(path, (when, when))


@pytest.fixture(autouse=True)
def _searched_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.follow.SECONDS_BETWEEN_SEARCHES", 0.05)


def until(views: Iterator[View | None], rounds: int) -> View:
    """The first stage value after which that many rounds were sent."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for view in views:
        if view and view["run"] and view["from"] + len(view["rounds"]) >= rounds:
            return view
        assert time.monotonic() < deadline
    raise AssertionError


def test_rounds_are_seen_soon_after_they_were_made(tmp_path: Path) -> None:
    views, lags = Follow(tmp_path / "run.jsonl.gz").views(), []
    assert "Waiting for a run" in (next(views) or {})["message"]
    with Recorder(tmp_path / "run.jsonl.gz", method="theirs", engine="my loop") as recorder:
        for count in range(1, 9):
            began = time.monotonic()
            recorder.round(**ROUND)
            assert until(views, count)["state"] == "running"
            lags.append(time.monotonic() - began)
    assert sorted(lags)[len(lags) // 2] < 0.2
    view = until(views, 8)
    assert (view["state"], view["header"]["method"]) == ("done", "theirs")


def test_two_browsers_see_the_same(tmp_path: Path) -> None:
    follow = Follow(tmp_path)
    one, other = follow.views(), follow.views()
    with Recorder(tmp_path / "run.jsonl") as recorder:
        recorder.round(**ROUND)
        first = until(one, 1)
        recorder.round(**ROUND)
        assert until(other, 2)["rounds"][0] == first["rounds"][0]
        assert until(one, 2)["rounds"][-1]["index"] == 1


def test_the_newest_run_of_a_folder_is_followed_and_all_are_listed(tmp_path: Path) -> None:
    write(tmp_path / "old.jsonl", when=1)
    (tmp_path / "notes.txt").write_text("no run")
    follow = Follow(tmp_path)
    views = follow.views()
    assert until(views, 1)["run"] == "old.jsonl"
    with Recorder(tmp_path / "new.jsonl.gz") as recorder:
        for _ in range(3):
            recorder.round(**ROUND)
        view = until(views, 3)
        assert (view["run"], view["from"]) == ("new.jsonl.gz", 0)
        assert [run["name"] for run in view["listed"]] == ["new.jsonl.gz", "old.jsonl"]
    old, new = follow.trace("old.jsonl"), follow.trace("new.jsonl.gz")
    assert old is not None and old.end.rounds == 1
    assert new is not None and len(new.entries) == 3
    assert follow.trace("../new.jsonl.gz") is None


def test_a_run_that_begins_anew_is_shown_anew(tmp_path: Path) -> None:
    views = Follow(tmp_path / "run.jsonl").views()
    for count in (3, 1):
        write(tmp_path / "run.jsonl", count)
        view = until(views, count)
        while view["end"] is None or view["end"]["rounds"] != count:
            view = until(views, count)
    assert len(view["rounds"]) == 1


def test_a_file_that_is_no_trace_says_so_and_a_better_one_is_taken(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    os.utime(tmp_path / "bad.jsonl", (1, 1))
    views = Follow(tmp_path).views()
    refused = next(view for view in views if view and view["state"] == "error")
    assert refused["message"].startswith("bad.jsonl is not a Canopy trace")
    write(tmp_path / "good.jsonl")
    assert until(views, 1)["run"] == "good.jsonl"


def test_silence_gives_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.follow.SECONDS_BETWEEN_BEATS", 0.1)
    views = Follow(tmp_path / "nothing.jsonl").views()
    assert [next(views) is None for _ in range(3)] == [False, True, True]


def test_names_that_are_no_utf8_are_followed_listed_and_opened(tmp_path: Path) -> None:
    write(tmp_path / os.fsdecode(b"old\xff.jsonl"), when=1)
    write(tmp_path / os.fsdecode(b"new\xe9.jsonl"))
    (tmp_path / os.fsdecode(b"bad\xff.jsonl")).write_text("nonsense")
    os.utime(os.fsencode(tmp_path) + b"/bad\xff.jsonl", (0, 0))
    follow = Follow(tmp_path)
    view = until(follow.views(), 1)
    assert [run["name"] for run in view["listed"]] == [r"new\xe9.jsonl", r"old\xff.jsonl", r"bad\xff.jsonl"]
    assert view["run"] == r"new\xe9.jsonl" and follow.trace(r"old\xff.jsonl") is not None
    refused = browser_call("replay", lambda _: follow.trace(r"bad\xff.jsonl"))({})
    assert "is not a Canopy trace" in refused["error"] and refused["error"].encode()
