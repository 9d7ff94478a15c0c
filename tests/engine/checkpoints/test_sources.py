"""Names of rigs, and what the hub answers, without a network: every failure is one sentence."""

import re
import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from engine.checkpoints import sources
from engine.checkpoints.files import display_name
from engine.checkpoints.memory import Opening
from engine.errors import RigError
from engine.requests.rig_names import NAMED, RIGS_FOLDER, RigPair, from_hub, pair_of, rig_names
from engine.serving.rigs import load_rig, rig_parts
from tests.engine.published import write_short, write_short_dflash

COMMIT = "b968826d9c46dd6066d109eabc6255188de91218"


def test_names_of_pairs() -> None:
    assert pair_of("a/b@v1 :: ./here") == RigPair("a/b@v1", ("./here",))
    assert pair_of("x::y::ngram").drafters == ("y", "ngram")
    assert pair_of("qwen3-8b").target == f"Qwen/Qwen3-8B@{COMMIT}"
    for wrong in ("x", "x::", "::y", "a::b::c::d", ""):
        with pytest.raises(RigError, match="is not of the form TARGET::DRAFTER"):
            pair_of(wrong)


def test_what_would_be_looked_up(tmp_path: Path) -> None:
    assert from_hub("demo") == from_hub("no::") == ()
    assert from_hub(f"{tmp_path}::ngram") == ()
    assert from_hub(f"{tmp_path}::own/head@v2") == ("own/head@v2",)
    assert from_hub("llama3.1-8b")[0].startswith("meta-llama/Llama-3.1-8B-Instruct@")
    assert "demo" in rig_names() and set(NAMED) < set(rig_names())


@pytest.mark.parametrize("name", list(NAMED))
def test_named_rigs_are_pinned_to_commits_where_one_is_known(name: str) -> None:
    pair = NAMED[name]
    for place in (pair.target, *pair.drafters):
        assert re.fullmatch(r"[\w-]+/[\w.-]+@([0-9a-f]{40}|main)", place)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """A hub that has a target and a drafter, laid out as the real one's cache; what was asked of it is written down."""
    asked: list[tuple[str, str]] = []
    for name, write in (("Qwen/Qwen3-8B", write_short), ("z-lab/Qwen3-8B-DFlash-b16", write_short_dflash)):
        write(cached(tmp_path, name), "Qwen3-8B")

    def download(model: str, revision: str, allow_patterns: list[str], max_workers: int, tqdm_class: type[Any]) -> str:
        assert "*.safetensors" in allow_patterns and not {"*.bin", "*.py", "*.pt"} & set(allow_patterns)
        assert max_workers == 1  # a file that is cut off begins anew: one at a time, so that the others are whole
        asked.append((model, revision))
        return str(cached(tmp_path, model))

    monkeypatch.setattr(sources, "snapshot_download", download)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return asked


def cached(cache: Path, model: str) -> Path:
    """The folder of a commit in the hub's cache."""
    return cache / f"models--{model.replace('/', '--')}" / "snapshots" / COMMIT


def test_what_lies_in_the_hubs_cache_goes_by_its_name(hub: list[tuple[str, str]], tmp_path: Path) -> None:
    told: list[str] = []
    load_rig("qwen3-8b", "float32", opening=Opening(lambda message, share: told.append(message)))
    assert "Reading the weights of Qwen/Qwen3-8B …" in told
    drafter = cached(tmp_path, "z-lab/Qwen3-8B-DFlash-b16")
    whole = (drafter / "model.safetensors").read_bytes()
    (drafter / "model.safetensors").write_bytes(whole[:1000])
    with pytest.raises(RigError) as caught:
        load_rig("qwen3-8b", "float32")
    assert str(caught.value).startswith("model.safetensors in z-lab/Qwen3-8B-DFlash-b16 is cut off or damaged (")
    assert f"delete the folder {drafter.parents[1]} and start again." in str(caught.value)
    (drafter / "model.safetensors").unlink()
    with pytest.raises(RigError, match="^z-lab/Qwen3-8B-DFlash-b16 has no model.safetensors"):
        load_rig("qwen3-8b", "float32")
    (drafter / "config.json").write_text("[]")
    with pytest.raises(RigError, match="^config.json in z-lab/Qwen3-8B-DFlash-b16 holds a list"):
        load_rig("qwen3-8b", "float32")
    assert display_name(Path("assets/demo/target")) == "target" and display_name(Path()) == Path().resolve().name


def test_a_named_rig_is_fetched_and_says_which_commits_it_is(hub: list[tuple[str, str]]) -> None:
    rig = load_rig("qwen3-8b", "float32")
    pair = NAMED["qwen3-8b"]
    assert [f"{model}@{revision}" for model, revision in hub] == [pair.target, *pair.drafters]
    assert rig.name == rig.opened_as == "qwen3-8b"
    assert rig.card.revisions == {
        "target": "Qwen/Qwen3-8B@b968826d9c46", "drafter": "z-lab/Qwen3-8B-DFlash-b16@b968826d9c46"}


def test_a_revision_is_pinned_and_a_folder_is_not_looked_up(hub: list[tuple[str, str]], tmp_path: Path) -> None:
    local = write_short(tmp_path / "local", "Qwen3-8B")
    parts = rig_parts(f"{local}::z-lab/Qwen3-8B-DFlash-b16@v1.2::ngram")
    assert hub == [("z-lab/Qwen3-8B-DFlash-b16", "v1.2")]
    assert parts.card.title == "local" and parts.card.defaults == {1: ("drafter 1",), 2: ("drafter 1", "ngram")}


def test_neither_a_folder_nor_an_id() -> None:
    with pytest.raises(RigError, match="There is no folder 'not/a/folder', and it is not a model id of"):
        load_rig("not/a/folder::ngram")
    with pytest.raises(RigError, match="There is no rig 'nowhere'; there are .*TARGET::DRAFTER"):
        load_rig("nowhere")


def answer(status: int) -> httpx2.Response:
    return httpx2.Response(status, request=httpx2.Request("GET", "https://hub"))


@pytest.mark.parametrize(("error", "said"), [
    (RepositoryNotFoundError("401", response=answer(401)), "The hub has no model own/model, or it is private"),
    (GatedRepoError("403", response=answer(403)), "accept it on its page on the hub and set HF_TOKEN"),
    (RevisionNotFoundError("404", response=answer(404)), "The model own/model has no revision 'v9'"),
    (LocalEntryNotFoundError("offline"), "the hub cannot be reached (no network, or HF_HUB_OFFLINE is set)"),
    (HfHubHTTPError("500 Server Error\nmore", response=answer(500)), "downloaded (500 Server Error); try again"),
    (OSError(28, "No space left on device"), "No space left on device"),
    (OSError(), "cannot be downloaded (OSError)"),
    (httpx2.ReadTimeout("The read operation timed out"), "(The read operation timed out); try again: the files that"),
    (ValueError("The file is too large. "), "downloaded (The file is too large); try again"),
])
def test_what_the_hub_refuses_is_said_in_one_sentence(
        monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(sources, "snapshot_download", download)
    with pytest.raises(RigError) as caught:
        load_rig("own/model@v9::ngram")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_offline_the_real_hub_client_answers_with_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RigError, match="Qwen/Qwen3-8B is not complete on this machine and the hub cannot be reached"):
        load_rig("qwen3-8b")


def test_a_rig_of_another_folder_needs_no_assets(tmp_path: Path) -> None:
    shutil.copytree(RIGS_FOLDER / "demo", tmp_path / "own")
    rig = load_rig(str(tmp_path / "own"), "float32")
    assert list(rig.drafters) == ["math", "code", "all", "all2", "small", "ngram"]
    assert list(rig.drafters_for("expand")) == ["small"] and list(rig.drafters_for("nanogpt")) == ["ngram"]
    assert list(rig.drafters_for("joint")) == ["math", "code"] and list(rig.drafters_for("ddtree")) == ["all"]
