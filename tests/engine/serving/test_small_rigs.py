"""The named rigs for a CPU: their layouts with small random weights, and the sizes reported before a download."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RigError
from engine.records import Request, Sampling
from engine.requests.rig_names import HUB_RIGS
from engine.serving.rigs import load_rig, rig_parts
from tests.engine.checkpoints.test_drafter_folders import DFLASH2, MARKOV, MARKOV_HEAD, SELECTOR, speculators
from tests.engine.helpers import rig_text
from tests.engine.models.shrunk import shrunk
from tests.engine.published import SIZES, TOKENIZER, Published, dflash_shapes, write_config, write_short, write_weights

SMALL = [name for name, pair in HUB_RIGS.items() if pair.download_gb]
TWO_LAYERS = Published("Qwen3-8B", (1, 3), 3, 8, 2)


def write_target(folder: Path, name: str) -> Path:
    """Write a small random target of the rig's family, with the drafters' hidden size and vocabulary."""
    if name.startswith("qwen3-"):
        return write_short(folder, "Qwen3-8B", tie_word_embeddings=True)
    sizes: dict[str, Any] = {"vocab_size": 1536, "hidden_size": SIZES["hidden_size"]}
    if name.startswith("qwen3.5"):
        shrunk("qwen3_5_text", **sizes).save_pretrained(folder)
    else:
        shrunk("gemma4_text", vocab_size_per_layer_input=1536, **sizes).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / file, folder)
    return folder


@pytest.mark.parametrize("name", SMALL)
def test_the_layout_of_a_small_rig_runs_and_leaves_the_text_unchanged(name: str, tmp_path: Path) -> None:
    values: dict[str, Any] = speculators("dflash2", "DFlash2DraftModel", **SELECTOR)
    shapes = DFLASH2
    if "dspark" in name:
        values, shapes = speculators("dspark", "DSparkSpeculator", sample_from_anchor=True, **MARKOV), MARKOV_HEAD
    drafter = write_weights(write_config(tmp_path / "head", values), {**dflash_shapes(TWO_LAYERS), **shapes})
    rig = load_rig(f"{write_target(tmp_path / 'target', name)}::{drafter}", "float32", "cpu")
    assert rig.kinds["drafter"] == ("dspark" if "dspark" in name else "dflash")
    request = Request(tuple(range(40, 60)), budget=12, max_tokens=10, sampling=Sampling(1.0, 0, 0.95, 3))
    assert len(set(rig_text(rig, request, ("dflash", "ddtree", "joint")))) > 5


@pytest.mark.parametrize("name", SMALL)
def test_a_refused_download_names_the_sizes_of_a_small_rig(
        name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    pair = HUB_RIGS[name]
    with pytest.raises(RigError) as caught:
        rig_parts(name)
    for figure in (pair.download_gb, pair.bfloat16_gb, pair.int4_gb):
        assert not figure or f"{figure:.1f} GB" in str(caught.value)
