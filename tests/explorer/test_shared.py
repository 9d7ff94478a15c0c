"""Shared runs: a link lasts until somebody deletes the run, within limits, and only this server's page may share."""

import base64
import gc
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from starlette.testclient import TestClient

from engine.errors import FileError, RequestError
from engine.recorder import MAX_NOTE_LENGTH
from engine.requests.admission import Admission
from engine.trace import dumps, estimate_bytes
from explorer import shared
from explorer.claims import recorded_comparison
from explorer.endpoints import Endpoints
from explorer.page import build, guarded
from explorer.recordings import Library
from explorer.runs import RUN_BYTES, RunLog, Runner, Runs
from explorer.shared import SharedRuns, with_words
from explorer.startup import Listening
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_rigs import call_function, current_rig

TRACE = scripted_trace("ddtree")
EVIL = '<script>alert("${7*6}")</script>\u202eevil\x00'


class Server:
    """Keep shared runs in a folder, and remember one run, "mine"."""

    def __init__(self, folder: Path) -> None:
        runs = Runs()
        self.endpoints = Endpoints(
            Library([]), runs, Runner(current_rig(), runs, Admission()), None, SharedRuns(folder))
        self.comparison = recorded_comparison(TRACE, scripted_trace("autoregressive", 0))
        runs.store(RunLog.recorded("mine", TRACE, self.comparison))

    def __call__(self, name: str, /, **wanted: Any) -> Any:
        return call_function(self.endpoints.functions(), name, **wanted)


def test_a_shared_run_outlives_the_server_with_its_title_and_speed(tmp_path: Path) -> None:
    first = Server(tmp_path / "new" / "folder")
    name = first("share", run="mine", title=EVIL, comment="Look at\nround 3.")["run"]
    restarted = Server(tmp_path / "new" / "folder")
    run, trace = restarted.endpoints.run_of(name), restarted.endpoints.trace_of(name)
    assert trace.header.title == '<script>alert("${7*6}")</script> evil'
    assert trace.header.note.startswith("Look at round 3.") and trace.header.recorded
    assert run.about["comparison"] == first.comparison and restarted.endpoints.speed_of(name)["times"]
    assert dumps(trace).partition(b"\n")[2] == dumps(TRACE).partition(b"\n")[2], "all lines except the header"
    again = restarted("share", run=name, title="", comment="")["run"]
    assert restarted.endpoints.trace_of(again).header.title == trace.header.title
    assert restarted("unshare", run=name) == {}
    for server in (restarted, Server(tmp_path / "new" / "folder")):
        assert "was deleted" in server("export", kind="trace", run=name)["error"]
    assert not list((tmp_path / "new" / "folder").glob(f"{name}*"))


def test_a_comparison_by_an_older_version_is_shown(tmp_path: Path) -> None:
    first = Server(tmp_path)
    name = first("share", run="mine", title="", comment="")["run"]
    file = tmp_path / f"{name}.json"
    current, former = '"state": "ended"', '"state": "cut"'
    written = file.read_text("utf8").replace('"outcome": ', '"standing": ').replace(current, former)
    assert former in written
    file.write_text(written, "utf8")
    assert Server(tmp_path).endpoints.run_of(name).about["comparison"] == replace(
        first.comparison, state="interrupted")


def test_a_replay_page_shows_its_title_and_view_without_markup_from_them(tmp_path: Path) -> None:
    file = Server(tmp_path)("export", kind="replay", run="mine", title=EVIL, comment=EVIL, view=f"#round=3{EVIL}")
    page = base64.b64decode(json.loads(file)["data"]).decode()
    assert page.count("</script>") == 3 and "&lt;script&gt;alert" in page and "#round=3" in page


@pytest.mark.parametrize("words", [{"title": "x" * 2**20}, {"comment": "x" * 501}])
def test_long_titles_and_comments_are_refused_in_a_short_sentence(tmp_path: Path, words: dict[str, str]) -> None:
    refusal = Server(tmp_path)("share", run="mine", **words)["error"]
    assert next(iter(words)) in refusal and "at most" in refusal and len(refusal) < 200 and not list(tmp_path.iterdir())


def test_the_folders_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path)
    name = server("share", run="mine")["run"]
    monkeypatch.setattr(shared, "MAX_SHARED_RUNS", 1)
    assert "no room" in server("share", run="mine")["error"]
    server("unshare", run=name)
    monkeypatch.setattr(shared, "MAX_SHARED_BYTES", 100)
    assert "no room" in server("share", run="mine")["error"] and not list(tmp_path.iterdir())


def test_a_full_disk_is_reported_and_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        if path.suffix == ".json":
            raise FileError(f"{path.name}: No space left on device.")
        path.write_bytes(data)

    monkeypatch.setattr(shared, "replace_file", full)
    assert "No space left on device" in Server(tmp_path)("share", run="mine")["error"]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_created_is_reported_when_the_server_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="--shared"):
        SharedRuns(tmp_path / "file")


def test_a_run_that_could_not_be_opened_again_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, header = SharedRuns(tmp_path), replace(TRACE.header, note="n" * MAX_NOTE_LENGTH)
    name = keeper.keep(with_words(replace(TRACE, header=header), {"comment": "Look."}), None)
    found = SharedRuns(tmp_path).find(name)
    assert found and (trace := found.trace()) and trace.header.note.startswith("Look. nnn")
    with pytest.raises(RequestError, match=f"{MAX_NOTE_LENGTH:,}"):
        keeper.keep(replace(TRACE, header=replace(header, title="t" * (MAX_NOTE_LENGTH + 1))), None)
    monkeypatch.setattr("engine.trace.stream.MAX_UNPACKED_BYTES", 3000)
    with pytest.raises(RequestError, match="3,000"):
        keeper.keep(TRACE, None)


def test_shared_runs_in_memory_are_limited_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = RUN_BYTES + sum(map(estimate_bytes, TRACE.lines))
    monkeypatch.setattr(shared, "Runs", partial(Runs, 2 * size))
    keeper = SharedRuns(tmp_path)
    names = [keeper.keep(TRACE, None) for _ in range(5)]
    runs = WeakSet(keeper.find(name) for name in names)
    gc.collect()
    assert len(runs) == 2
    for name in names:
        keeper.delete(name)
    gc.collect()
    assert not runs


def test_other_files_in_the_folder_cause_no_failure(tmp_path: Path) -> None:
    (tmp_path / "shared-gone.jsonl.gz").symlink_to(tmp_path / "nowhere")
    (tmp_path / f"shared-{'0' * 32}.jsonl.gz").mkdir()
    server = Server(tmp_path)
    assert server("share", run="mine")["run"]
    assert "Is a directory" in server("unshare", run=f"shared-{'0' * 32}")["error"]


@pytest.mark.parametrize("name", ["shared-../../etc/passwd", "../mine", "shared-" + "0" * 32])
def test_a_name_cannot_lead_outside_the_folder(tmp_path: Path, name: str) -> None:
    (kept := tmp_path / "mine.jsonl.gz").write_bytes(b"")
    server = Server(tmp_path / "shared")
    assert server("export", kind="trace", run=name)["error"]
    server("unshare", run=name)
    assert kept.exists()


def test_another_website_can_neither_share_nor_delete_runs(tmp_path: Path) -> None:
    keeper = SharedRuns(tmp_path)
    name = keeper.keep(TRACE, None)
    page, routes = build(current_rig(ScriptedSource()), Library([]), shared=keeper)
    (stage,) = [number for number, part in page.blocks.items() if getattr(part, "elem_id", "") == "canopy-stage"]
    client = TestClient(guarded(page, routes, Listening()), base_url="http://127.0.0.1:7860")

    def unshare(origin: str) -> int:
        asked = {"component_id": stage, "fn_name": "unshare", "data": {"run": name}, "session_hash": "x"}
        return client.post("/gradio_api/component_server", json=asked, headers={"Origin": origin}).status_code

    assert unshare("http://evil.example") == 403 and keeper.find(name)
    assert unshare("http://127.0.0.1:7860") == 200 and not list(tmp_path.iterdir())
