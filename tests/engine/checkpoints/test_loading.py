"""What is wrong with a checkpoint is said in one sentence."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from engine.checkpoints.loading import load_causal
from engine.drafters.abilities import BlockDrafter
from engine.errors import RigError
from engine.serving.rigs import load_rig, rig_parts

DEMO = Path("assets/demo")


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    """A copy of the demo rig to break."""
    shutil.copytree(DEMO, tmp_path / "rig")
    return tmp_path / "rig"


def refused(rig: Path) -> str:
    with pytest.raises(RigError) as caught:
        load_rig(str(rig))
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith((".", "again.", "!"))
    return sentence


def test_truncated_target(rig: Path) -> None:
    path = next((rig / "target").glob("model-00001*.safetensors"))
    path.write_bytes(path.read_bytes()[:100_000])
    assert "model-00001-of-00002.safetensors in target is cut off or damaged" in refused(rig)


@pytest.mark.parametrize("field", ["mask_token_id", "target_layer_ids", "block_size"])
def test_a_drafter_config_without_what_it_needs(rig: Path, field: str) -> None:
    path = rig / "math" / "config.json"
    config = json.loads(path.read_text())
    config.pop(field, None)
    config["dflash_config"].pop(field, None)
    path.write_text(json.dumps(config))
    assert f"config.json in math names no {field}" in refused(rig)


@pytest.mark.parametrize("field", ["mask_token_id", "target_layer_ids", "block_size"])
def test_both_places_of_a_drafter_option_are_read(rig: Path, field: str) -> None:
    path = rig / "math" / "config.json"
    config = json.loads(path.read_text())
    places = (config, config["dflash_config"])
    value = next(place.pop(field) for place in places if field in place)
    for place in places:
        place[field] = value
        path.write_text(json.dumps(config))
        drafter = load_rig(str(rig)).drafters["math"]
        assert isinstance(drafter, BlockDrafter)
        assert {"mask_token_id": drafter.mask_id, "block_size": drafter.block,
                "target_layer_ids": drafter.model.config.dflash_config["target_layer_ids"]}[field] == value
        place.pop(field)


def test_a_drafter_of_another_width(rig: Path) -> None:
    path = rig / "math" / "config.json"
    config = json.loads(path.read_text())
    config["intermediate_size"] += 8
    path.write_text(json.dumps(config))
    assert "does not fit its own config" in refused(rig)


def test_a_rig_card_that_is_not_json(rig: Path) -> None:
    (rig / "rig.json").write_text("{")
    assert "rig.json in rig is not JSON" in refused(rig)


def test_a_card_written_before_drafters_had_their_name(rig: Path) -> None:
    card = json.loads((rig / "rig.json").read_text())
    names = card.pop("drafters")
    (rig / "rig.json").write_text(json.dumps({**card, "heads": names}))
    assert list(rig_parts(str(rig)).drafters) == names


def test_the_weights_stay_small() -> None:
    files = [path for path in DEMO.rglob("*.safetensors")]
    assert len(files) >= 5
    assert sum(path.stat().st_size for path in files) <= 60e6
    assert max(path.stat().st_size for path in files) <= 15e6


def test_models_that_are_loaded_at_once_are_whole_and_so_are_later_ones() -> None:
    def load(_: int) -> int:
        return int(load_causal(DEMO / "target", torch.float32, torch.device("cpu")).num_parameters())
    with ThreadPoolExecutor(4) as loads:
        sizes = list(loads.map(load, range(12)))
    assert len({*sizes, load(0)}) == 1
