"""Names of rigs, and the hub's own client against a local hub: which files are fetched and kept, which progress is
reported, how a download is cancelled, and that every failure is one sentence."""

import json
import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import _xet

from engine.checkpoints import sources
from engine.checkpoints.files import display_name
from engine.checkpoints.memory import LoadContext
from engine.checkpoints.sources import DownloadProgress, LocalModel, fetch_weights, resolve_model
from engine.errors import CancellationError, RigError
from engine.machine.progress import ReportProgress, ignore_progress
from engine.requests.rig_names import HUB_RIGS, RigModels, from_hub, parse_rig, rig_names
from engine.serving.rigs import load_rig, rig_parts
from tests.engine.published import refused, write_short, write_short_dflash

COMMIT = "b968826d9c46dd6066d109eabc6255188de91218"
PIECE, SHARD = 1000, 3000
SHARDS = ("model-1.safetensors", "model-2.safetensors")
INDEX = json.dumps({"weight_map": dict(zip("ab", SHARDS, strict=True))}).encode()
FILES = {"config.json": b"{}", "model.safetensors.index.json": INDEX, SHARDS[0]: b"1" * SHARD, SHARDS[1]: b"2" * SHARD}
MODEL, DRAFTER = "own/model", "z-lab/Qwen3-8B-DFlash-b16"


def fetch(name: str, report: ReportProgress = ignore_progress) -> LocalModel:
    """Fetch all files of a model."""
    model = resolve_model(name, report)
    fetch_weights(model, report)
    return model


def test_names_of_rigs_are_split_at_double_colons(tmp_path: Path) -> None:
    assert parse_rig("a/b@v1 :: ./here") == RigModels("a/b@v1", ("./here",))
    assert parse_rig("x::y::ngram").drafters == ("y", "ngram")
    for wrong in ("x", "x::", "::y", "a::b::c::d", ""):
        with pytest.raises(RigError, match="TARGET::DRAFTER"):
            parse_rig(wrong)
    assert "not/a/folder" in refused("not/a/folder::ngram") and "nowhere" in refused("nowhere")
    assert from_hub("demo") == from_hub("no::") == from_hub(f"{tmp_path}::ngram") == ()
    assert from_hub(f"{tmp_path}::own/head@v2") == ("own/head@v2",)
    assert "demo" in rig_names() and set(HUB_RIGS) < set(rig_names())
    for pair in HUB_RIGS.values():  # pinned to commits if a commit is known
        assert all(re.fullmatch(r"[\w-]+/[\w.-]+@([0-9a-f]{40}|main)", name) for name in (pair.target, *pair.drafters))


class Hub(ThreadingHTTPServer):
    """Serve models as bytes by file name. ``fetched`` holds each request's file and range, ``revisions`` each requested
    revision."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.models: dict[str, dict[str, bytes]] = {MODEL: dict(FILES)}
        self.fetched: list[tuple[str, str | None]] = []
        self.revisions: list[str] = []
        Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def add_model(self, model: str, folder: Path) -> None:
        """Add a folder's files as a model."""
        self.models[model] = {path.name: path.read_bytes() for path in folder.iterdir()}


class Answers(BaseHTTPRequestHandler):
    """Answer the requests of the hub's client."""

    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path.startswith("/api/") and not path.startswith("/api/models/"):
            self.send_error(404)  # other questions of the client, such as the user's name
            return
        parts = re.fullmatch(r"(?:/api/models)?/(.+?/.+?)(?:/(\w+)/(.+))?", path)
        assert parts
        model, what, revision = parts.groups()
        name = (revision or "").partition("/")[2]
        if what == "tree":
            body = json.dumps([{"type": "file", "path": file, "size": len(data), "oid": f"{len(data):040x}"}
                               for file, data in self.server.models[model].items()]).encode()
        elif what == "resolve":
            body = self.server.models[model][name]
        else:
            self.server.revisions.append(f"{model}@{revision}")
            body = json.dumps({"id": model, "sha": COMMIT, "siblings": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", f'"{model.replace("/", "-")}-{name}"')
        self.send_header("X-Repo-Commit", revision.split("/")[0] if what == "resolve" else COMMIT)
        self.end_headers()
        if self.command == "GET":
            if what == "resolve":
                self.server.fetched.append((name, self.headers.get("Range")))
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    address = f"http://127.0.0.1:{server.server_port}"
    for name, value in {
            "ENDPOINT": address, "HUGGINGFACE_CO_URL_TEMPLATE": address + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": False, "DOWNLOAD_CHUNK_SIZE": PIECE}.items():
        monkeypatch.setattr(constants, name, value)
    yield server
    server.shutdown()
    server.server_close()


def totals(reported: Iterable[tuple[str, float | None]]) -> set[str]:
    """Return the totals in gigabytes of the progress messages."""
    return {figures[1] for message, _ in reported if len(figures := re.findall(r"\d+\.\d+", message)) == 2}


def test_a_download_counts_all_bytes_of_all_files(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "GIGA", 1000.0)
    reported: list[tuple[str, float | None]] = []
    model = fetch(MODEL, lambda *step: reported.append(step))
    assert model == LocalModel(model.folder, "own/model@b968826d9c46", MODEL) and model.folder.name == COMMIT
    assert [name for name, _ in hub.fetched] == list(FILES) and hub.revisions == ["own/model@main"]
    assert reported[0][1] is None and reported[-1][1] == 1.0 and all(MODEL in message for message, _ in reported)
    shares = [share for _, share in reported if share is not None]
    assert shares == sorted(shares) and totals(reported) == {"6.00"}


def test_an_interrupted_download_keeps_complete_files(hub: Hub) -> None:
    def cancel_in_the_second_shard(message: str, share: float | None) -> None:
        if share and share > 0.7:
            raise CancellationError("Somebody changed their mind.")

    with pytest.raises(CancellationError):
        fetch(MODEL, cancel_in_the_second_shard)
    hub.fetched.clear()
    shares: list[float] = []
    folder = fetch(MODEL, lambda message, share: shares.append(share or 0.0)).folder
    assert hub.fetched == [("model-2.safetensors", None)]
    assert min(share for share in shares if share) >= 0.5 and max(shares) == 1.0  # files that are here already count
    assert (folder / "model-2.safetensors").read_bytes() == FILES["model-2.safetensors"]


def test_neither_pickles_nor_code_are_fetched(hub: Hub) -> None:
    hub.models[MODEL] |= {"pytorch_model.bin": b"x", "model.py": b"x"}
    assert fetch(MODEL).label == "own/model@b968826d9c46" and [name for name, _ in hub.fetched] == list(FILES)
    hub.fetched.clear()
    hub.models["own/old"] = {"config.json": b"{}", "pytorch_model.bin": b"x" * SHARD, "training_args.bin": b"y"}
    with pytest.raises(RigError, match=r"own/old.*pytorch_model.bin"):
        fetch("own/old")
    assert [name for name, _ in hub.fetched] == ["config.json"]
    hub.shutdown()
    with pytest.raises(RigError, match="pickle"):  # and without asking the hub
        fetch(f"own/old@{COMMIT}")


def test_other_copies_of_the_weights_are_neither_fetched_nor_counted(
        hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "GIGA", 1000.0)
    needless = {name: b"x" * SHARD for name in (
        "original/consolidated.00.safetensors", "original/params.json", "original/tokenizer.model",
        "consolidated.safetensors", "model.fp16.safetensors", "onnx/config.json", "adapter_model.safetensors")}
    hub.models[MODEL] |= {**needless, "tokenizer.model": b"t", "additional_chat_templates/tool.jinja": b"j"}
    reported: list[tuple[str, float | None]] = []
    fetch(MODEL, lambda *step: reported.append(step))
    wanted = {*FILES, "tokenizer.model", "additional_chat_templates/tool.jinja"}
    assert {name for name, _ in hub.fetched} == wanted and len(hub.fetched) == len(wanted)
    assert totals(reported) == {"6.00"}
    hub.fetched.clear()
    one = {"config.json": b"{}", "model.safetensors": b"m", "consolidated.safetensors": b"c"}
    hub.models["own/one"] = {**one, "model-00001-of-00002.safetensors": b"s"}
    fetch("own/one")
    assert [name for name, _ in hub.fetched] == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(("part", "changes", "words"), [
    ("target", {"quantization_config": {"quant_method": "fp8"}}, "fp8"), ("target", {"model_type": "t5"}, "t5"),
    ("drafter", {"hidden_size": 64}, "hidden size 64"), ("drafter", {"vocab_size": "many"}, "'many'")])
def test_an_unsupported_model_is_refused_before_its_weights_are_fetched(
        hub: Hub, tmp_path: Path, part: str, changes: dict[str, Any], words: str) -> None:
    folders = {"target": write_short(tmp_path / "target", "Qwen3-8B"),
               "drafter": write_short_dflash(tmp_path / "drafter", "Qwen3-8B")}
    for name, folder in folders.items():
        hub.add_model(f"own/{name}", folder)
    config = json.loads(hub.models[f"own/{part}"]["config.json"])
    hub.models[f"own/{part}"]["config.json"] = json.dumps({**config, **changes}).encode()
    with pytest.raises(RigError, match=words):
        rig_parts("own/target::own/drafter")
    fetched = [name for name, _ in hub.fetched]
    assert fetched.count("config.json") == 2 and not any(name.endswith(".safetensors") for name in fetched)


def cancelled(message: str, share: float | None) -> None:
    raise CancellationError("Somebody changed their mind.")


@pytest.mark.parametrize("fails", [False, True])
def test_a_cancellation_swallowed_by_the_client_ends_the_fetch(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    stopped, begun = [], Event()

    def download(*_: Any, tqdm_class: type[Any], **__: Any) -> str:
        piece = tqdm_class(total=10, unit="B", disable=True)
        begun.set()
        for _piece in range(3):
            with suppress(CancellationError):  # as a thread outside Python does
                piece.update(5)
        if fails:
            raise RuntimeError("Operation cancelled: task 9 was cancelled")
        return "/nowhere"

    monkeypatch.setattr(sources, "snapshot_download", download)
    monkeypatch.setattr(sources, "_stop_xet", lambda: stopped.append(1))
    with pytest.raises(CancellationError):
        fetch(MODEL, lambda message, share: cancelled(message, share) if begun.is_set() else None)
    assert stopped == [1]


@pytest.mark.parametrize("disable", [True, False])
def test_transferred_bytes_are_counted_once(disable: bool) -> None:
    reported: list[tuple[str, float | None]] = []
    bar = DownloadProgress(MODEL, "main", lambda *step: reported.append(step)).bar()
    here = bar(total=0, initial=0, unit="B", unit_scale=True, disable=disable, name="huggingface_hub.snapshot_download")
    travels = bar(total=0, unit="B", disable=disable, name="huggingface_hub.snapshot_download.transfer")
    here.total = travels.total = 4_000_000_000  # each file adds its size when it begins
    here.update(1_000_000_000)
    travels.update(2_000_000_000)
    assert [share for _, share in reported] == [0.25] * 2 and totals(reported) == {"4.00"}


def test_the_hubs_xet_client_stops_at_once() -> None:
    hf_xet = pytest.importorskip("hf_xet")
    silent = socket.create_server(("127.0.0.1", 0))
    bar = DownloadProgress(MODEL, "main", cancelled).bar()(total=10, unit="B", disable=True)
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


def test_a_named_rig_reports_its_commits_and_damaged_cache_files(hub: Hub, tmp_path: Path) -> None:
    hub.add_model("Qwen/Qwen3-8B", write_short(tmp_path / "target", "Qwen3-8B"))
    hub.add_model(DRAFTER, write_short_dflash(tmp_path / "drafter", "Qwen3-8B"))
    reported: list[str] = []
    rig = load_rig("qwen3-8b", "float32", context=LoadContext(lambda message, share: reported.append(message)))
    assert any("Qwen/Qwen3-8B" in message for message in reported) and rig.name == rig.opened_as == "qwen3-8b"
    commit = parse_rig("qwen3-8b").drafters[0].partition("@")[2]
    assert rig.card.revisions == {"target": "Qwen/Qwen3-8B@b968826d9c46", "drafter": f"{DRAFTER}@{commit[:12]}"}
    cached = tmp_path / "cache" / f"models--{DRAFTER.replace('/', '--')}"
    file = cached / "snapshots" / commit / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    sentence = refused("qwen3-8b")
    assert f"model.safetensors in {DRAFTER}" in sentence and str(cached) in sentence
    (file.parent / "config.json").write_text("[]")
    assert f"config.json in {DRAFTER}" in refused("qwen3-8b")
    assert display_name(Path("assets/demo/target")) == "target" and display_name(Path()) == Path().resolve().name


def test_a_revision_is_pinned_and_a_folder_is_not_looked_up(hub: Hub, tmp_path: Path) -> None:
    local = write_short(tmp_path / "local", "Qwen3-8B")
    hub.add_model(MODEL, write_short_dflash(tmp_path / "drafter", "Qwen3-8B"))
    parts = rig_parts(f"{local}::{MODEL}@v1.2::ngram")
    assert hub.revisions == [f"{MODEL}@v1.2"]
    assert parts.card.title == "local" and parts.card.defaults == {1: ("drafter 1",), 2: ("drafter 1", "ngram")}


def answer(status: int) -> httpx2.Response:
    return httpx2.Response(status, request=httpx2.Request("GET", "https://hub"))


@pytest.mark.parametrize(("error", "named"), [
    (RepositoryNotFoundError("401", response=answer(401)), "private"),
    (GatedRepoError("403", response=answer(403)), "licence"),
    (RevisionNotFoundError("404", response=answer(404)), "v9"),
    (HfHubHTTPError("500 Server Error\nmore", response=answer(500)), "500 Server Error"),
    (OSError(28, "No space left on device"), "No space left on device"), (OSError(), "OSError"),
    (httpx2.ReadTimeout("The read operation timed out"), "timed out")])
def test_an_error_of_the_hub_becomes_one_sentence(
        monkeypatch: pytest.MonkeyPatch, error: Exception, named: str) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(sources, "snapshot_download", download)
    sentence = refused("own/model@v9::ngram")
    assert "own/model" in sentence and named in sentence


def test_a_fetch_without_a_network_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch, hub: Hub) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "Qwen/Qwen3-8B" in refused("qwen3-8b")
