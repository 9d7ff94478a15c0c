"""Downloads by the hub's own client from a hub on this machine: what is kept, what is told, and how one is ended."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _xet

from engine.checkpoints import sources
from engine.checkpoints.sources import DownloadProgress, LocalModel, fetch
from engine.errors import CancellationError, RigError

COMMIT = "b968826d9c46dd6066d109eabc6255188de91218"
PIECE, SHARD = 1000, 3000
FILES = {"config.json": b"{}", "model-1.safetensors": b"1" * SHARD, "model-2.safetensors": b"2" * SHARD}


class Hub(ThreadingHTTPServer):
    """One model, own/model; ``asked`` are the files that were fetched, and from which byte on."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.files: dict[str, bytes] = dict(FILES)
        self.asked: list[tuple[str, str | None]] = []
        Thread(target=self.serve_forever, daemon=True).start()


class Answers(BaseHTTPRequestHandler):
    """What the hub's client asks for."""

    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name = self.path.split("?")[0].rsplit("/", 1)[-1]
        if "/tree/" in self.path:
            body = json.dumps([{"type": "file", "path": path, "size": len(data), "oid": f"{len(data):040x}"}
                               for path, data in self.server.files.items()]).encode()
        elif "/api/" in self.path:
            body = json.dumps({"id": "own/model", "sha": COMMIT, "siblings": []}).encode()
        else:
            body = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", f'"{name}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            if "/resolve/" in self.path:
                self.server.asked.append((name, self.headers.get("Range")))
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()
    place = f"http://127.0.0.1:{made.server_port}"
    for name, value in {
            "ENDPOINT": place, "HUGGINGFACE_CO_URL_TEMPLATE": place + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": False, "DOWNLOAD_CHUNK_SIZE": PIECE}.items():
        monkeypatch.setattr(constants, name, value)
    yield made
    made.shutdown()
    made.server_close()


def test_a_download_counts_all_bytes_of_all_files(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "GIGA", 1000.0)
    told: list[tuple[str, float | None]] = []
    found = fetch("own/model", lambda *each: told.append(each))
    assert found == LocalModel(found.folder, "own/model@b968826d9c46") and found.folder.name == COMMIT
    assert [name for name, _ in hub.asked] == list(FILES)
    assert told[0] == ("Looking for own/model …", None) and told[-1] == ("Fetching own/model: 6.00 of 6.00 GB", 1.0)
    shares = [share for _, share in told if share is not None]
    assert shares == sorted(shares) and {message[-10:] for message, share in told if share} == {"of 6.00 GB"}


def test_cut_off_it_keeps_whole_files_and_begins_the_other_anew(hub: Hub) -> None:
    told: list[float | None] = []

    def until_the_second_shard(message: str, share: float | None) -> None:
        told.append(share)
        if share and share > 0.7:
            raise CancellationError("Somebody changed their mind.")

    with pytest.raises(CancellationError):
        fetch("own/model", until_the_second_shard)
    hub.asked.clear()
    again: list[float] = []
    folder = fetch("own/model", lambda message, share: again.append(share or 0.0)).folder
    assert hub.asked == [("model-2.safetensors", None)]
    assert min(share for share in again if share) > 0.5 and max(again) == 1.0  # what is here already counts
    assert (folder / "model-2.safetensors").read_bytes() == FILES["model-2.safetensors"]


def test_pickles_on_the_hub_are_not_called_incomplete(hub: Hub) -> None:
    hub.files = {"config.json": b"{}", "pytorch_model.bin": b"x" * SHARD, "training_args.bin": b"y"}
    with pytest.raises(RigError, match=r"^own/model holds its weights as pytorch_model.bin, a pickle, which could run"):
        fetch("own/model")
    assert [name for name, _ in hub.asked] == ["config.json"]
    hub.shutdown()
    with pytest.raises(RigError, match="a pickle"):  # known without the hub, too
        fetch(f"own/model@{COMMIT}")


def test_safetensors_beside_pickles_are_what_is_read(hub: Hub) -> None:
    hub.files["pytorch_model.bin"] = b"x"
    assert fetch("own/model").label == "own/model@b968826d9c46"


def cancelled(message: str, share: float | None) -> None:
    raise CancellationError("Somebody changed their mind.")


@pytest.mark.parametrize("fails", [False, True])
def test_cancelled_where_the_hub_swallows_it(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    stopped, begun = [], Event()

    def download(*_: Any, tqdm_class: type[Any], **__: Any) -> str:
        piece = tqdm_class(total=10, unit="B", disable=True)
        begun.set()
        for _piece in range(3):
            with suppress(CancellationError):  # as in a thread that is not Python's
                piece.update(5)
        if fails:
            raise RuntimeError("Operation cancelled: task 9 was cancelled")
        return "/nowhere"

    def tell(message: str, share: float | None) -> None:
        if begun.is_set():
            cancelled(message, share)

    monkeypatch.setattr(sources, "snapshot_download", download)
    monkeypatch.setattr(sources, "_stop_xet", lambda: stopped.append(1))
    with pytest.raises(CancellationError):
        fetch("own/model", tell)
    assert stopped == [1]


def test_the_bar_of_files_ends_it_before_the_next_file() -> None:
    bar = DownloadProgress("own/model", "main", cancelled).bar()
    piece, between = bar(total=10, unit="B", disable=True), bar(total=3, disable=True)
    piece.update(1)  # the Xet client is told to stop; what is raised in its threads is lost
    with pytest.raises(CancellationError):
        between.update(1)
    with pytest.raises(CancellationError):
        piece.update(1)
    with pytest.raises(CancellationError):
        DownloadProgress("own/model", "main", cancelled).bar()(total=3, disable=True).update(1)


@pytest.mark.parametrize("disable", [True, False])
def test_bytes_are_told_once_however_they_travel(disable: bool) -> None:
    told: list[tuple[str, float | None]] = []
    bar = DownloadProgress("own/model", "main", lambda *each: told.append(each)).bar()
    here = bar(total=0, initial=0, unit="B", unit_scale=True, disable=disable, name="huggingface_hub.snapshot_download")
    travels = bar(total=0, unit="B", disable=disable, name="huggingface_hub.snapshot_download.transfer")
    here.total = travels.total = 4_000_000_000  # files add to it as they begin
    here.update(1_000_000_000)
    travels.update(2_000_000_000)
    assert told == [("Fetching own/model: 1.00 of 4.00 GB", 0.25)] * 2


def test_the_hubs_xet_client_stops_at_once() -> None:
    hf_xet = pytest.importorskip("hf_xet")
    silent = socket.create_server(("127.0.0.1", 0))
    bar = DownloadProgress("own/model", "main", cancelled).bar()(total=10, unit="B", disable=True)
    ended, until = Event(), int(time.time()) + 3600

    def work() -> None:
        try:
            with _xet.get_xet_session().new_file_download_group(
                    endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}", token="x", token_expiry_unix_secs=until,
                    progress_callback=lambda *_: bar.update(1)) as group:
                group.start_download_file(hf_xet.XetFileInfo("ab" * 32, 10**9), "/dev/null")
        except RuntimeError:
            ended.set()

    Thread(target=work, daemon=True).start()
    try:
        assert ended.wait(20)
    finally:
        _xet.abort_xet_session()
        silent.close()
