"""The dtype that nobody named: measured once, remembered, and plain decoding may have its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from engine.errors import RigError
from engine.records import Ask, Request
from engine.requests.rig_names import AUTO_DTYPE, DTYPE_NAMES, DTYPE_WORDS
from engine.runtime.checkpoints import memory
from engine.runtime.checkpoints.memory import Storage
from engine.runtime.rigs import precision
from engine.runtime.rigs.live import LiveRig
from engine.runtime.rigs.precision import PassTimes
from engine.runtime.rigs.rigs import Rig, open_rig
from engine.runtime.rigs.room import run_bytes
from engine.trace import committed_ids, gather
from tests.engine.runtime.small import small_target

SLOW_BFLOAT16 = {"float32": PassTimes(12.0, 13.0, 15.0), "bfloat16": PassTimes(8.0, 14.0, 40.0)}  # AVX2 alone, about
TILES = {"float32": PassTimes(12.0, 13.0, 15.0), "bfloat16": PassTimes(5.0, 6.0, 8.0)}


class CellResult:
    """Stands in for measuring, and counts."""

    def __init__(self, times: dict[str, PassTimes]) -> None:
        self.times, self.asked = times, 0

    def __call__(self, folder: Path, names: Sequence[str]) -> dict[str, PassTimes]:
        self.asked += 1
        assert set(names) == set(self.times)
        return self.times


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what is remembered."""
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path))
    return tmp_path / "precision.json"


def stand_in(monkeypatch: pytest.MonkeyPatch, times: dict[str, PassTimes]) -> CellResult:
    measured = CellResult(times)
    monkeypatch.setattr(precision, "pass_times", measured)
    return measured


def test_trees_and_plain_decoding_each_get_what_is_fastest(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, SLOW_BFLOAT16)
    rig = open_rig("demo", AUTO_DTYPE, "cpu")
    assert (rig.target.dtype, rig.dtype) == ("float32", "float32, plain decoding bfloat16")
    live = LiveRig(rig)
    runs = {method: gather(live.run(Ask("What is 3 + 4?", method=method, budget=16,
                                        max_tokens=12))) for method in ("autoregressive", "ddtree")}
    assert runs["autoregressive"].header.dtype == "bfloat16" and runs["ddtree"].header.dtype == "float32"
    alone = gather(LiveRig(open_rig("demo", "bfloat16", "cpu")).run(Ask("What is 3 + 4?", method="autoregressive",
                                                                        budget=0, max_tokens=12)))
    assert committed_ids(entry.round for entry in runs["autoregressive"].entries) == committed_ids(
        entry.round for entry in alone.entries)


def test_one_copy_where_one_dtype_is_fastest_for_both(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, TILES)
    rig = open_rig("demo", AUTO_DTYPE, "cpu")
    assert rig.plain_target is None and rig.dtype == "bfloat16"


def test_it_is_measured_once_and_again_where_nothing_can_be_read(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = stand_in(monkeypatch, TILES)
    open_rig("demo", AUTO_DTYPE, "cpu")
    open_rig("demo", AUTO_DTYPE, "cpu")
    assert measured.asked == 1
    kept.write_text('{"half', "utf8")
    open_rig("demo", AUTO_DTYPE, "cpu")
    assert measured.asked == 2


def test_a_folder_that_cannot_be_written_costs_only_the_memory(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = stand_in(monkeypatch, TILES)
    kept.mkdir()  # where the file should be
    assert open_rig("demo", AUTO_DTYPE, "cpu").dtype == open_rig("demo", AUTO_DTYPE, "cpu").dtype == "bfloat16"
    assert measured.asked == 2


def test_nothing_is_measured_for_a_named_dtype_or_a_large_target(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = stand_in(monkeypatch, SLOW_BFLOAT16)
    assert open_rig("demo", "float32", "cpu").dtype == "float32"
    monkeypatch.setattr(precision, "LARGEST", 1000)
    assert open_rig("demo", AUTO_DTYPE, "cpu").dtype == "bfloat16"
    assert measured.asked == 0


def test_what_is_measured_is_the_targets_own_passes(kept: Path) -> None:
    found = precision.pass_times(Path("assets/demo/target"), ["float32", "bfloat16"])
    assert found.keys() == {"float32", "bfloat16"}
    assert all(0 < each < 60_000 for one in found.values() for each in (one.one, one.small_tree, one.tree))


def test_a_size_of_tree_that_is_dear_in_one_dtype_counts_as_much_as_one_that_is_cheap() -> None:
    assert precision.chosen({"float32": PassTimes(28.0, 35.0, 60.0), "bfloat16": PassTimes(26.0, 38.0, 144.0),
                             "int4": PassTimes(9.0, 12.0, 61.0)}) == precision.Precision("int4", "int4")


def test_what_is_remembered_without_a_size_is_measured_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = stand_in(monkeypatch, TILES)
    open_rig("demo", AUTO_DTYPE, "cpu")
    kept.write_text(kept.read_text("utf8").replace('"small_tree"', '"tree_of_old"'), "utf8")
    assert open_rig("demo", AUTO_DTYPE, "cpu").dtype == "bfloat16" and measured.asked == 2


@pytest.mark.parametrize("name", precision.DTYPES)
def test_the_memory_check_counts_the_cache_that_a_target_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = small_target()
    target.model.to(precision.DTYPES[name])
    monkeypatch.setattr(target, "_in_four_bits", name == "int4")
    storage = precision.storage_of(name)
    assert (storage.cache, storage.weights) == (target.cache_dtype, target.model.dtype)
    text = SimpleNamespace(num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                           max_position_embeddings=10**6)
    cache = 2 * 3 * 2 * 8 * memory.USUAL_POSITIONS * storage.cache.itemsize
    needed = cache + int(1000 * storage.weight_bytes)
    monkeypatch.setattr(memory, "parameters", lambda _: 1000)
    monkeypatch.setattr(memory, "free_bytes", lambda _: needed)
    asked: tuple[list[Path], Any, Storage, torch.device] = [Path("target")], text, storage, torch.device("cpu")
    memory.must_fit_into_memory(*asked)
    monkeypatch.setattr(memory, "free_bytes", lambda _: needed - 1)
    with pytest.raises(RigError, match=f"of weights in {name}, 0.0 of cache"):
        memory.must_fit_into_memory(*asked)


def test_a_plain_run_takes_the_cache_of_its_own_target() -> None:
    trees, plain = small_target(), small_target()
    plain._in_four_bits = True
    asked = Request((1, 2, 3), budget=0, max_tokens=60)
    own, same = (run_bytes(cast(Rig, SimpleNamespace(target=trees, plain_target=each)), asked, 0)
                 for each in (plain, None))
    assert own > 1.5 * same


def test_every_dtype_has_its_words_and_may_be_named() -> None:
    assert set(DTYPE_WORDS) == set(precision.DTYPES) and set(DTYPE_NAMES) == {AUTO_DTYPE, *precision.DTYPES}


def test_no_other_word_is_a_dtype() -> None:
    with pytest.raises(RigError, match="'float16' is not supported; choose one of auto, float32, bfloat16, int4"):
        open_rig("demo", "float16")
