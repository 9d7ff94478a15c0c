"""Damaged checkpoints: whatever a folder's files say, the command line and the page answer with one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoints.files import unheard
from engine.commands.program import main
from engine.errors import RigError
from engine.measure.instruments import open_beside
from engine.serving.rigs import load_rig
from tests.engine.published import write_short

Change = Callable[[dict[str, Any]], object]
TOKENIZER, CONFIG, STOP = "tokenizer.json", "config.json", "generation_config.json"


def token_at(place: int) -> Change:
    return lambda values: values["model"]["vocab"].update(zzz=place)


def texts(**values: Any) -> Change:
    return lambda before: before.update(values)


DAMAGE: dict[str, tuple[str, str | Change, str]] = {
    "deep config": (CONFIG, "[" * 100_000, "config.json in rig is not JSON"),
    "deep object": (CONFIG, '{"a":' * 100_000, "config.json in rig is not JSON"),
    "positions": (CONFIG, texts(max_position_embeddings=10**15), "max_position_embeddings 1000000000000000; at most"),
    "long number": (CONFIG, texts(rope_theta=10**400), "rope_theta 1000"),
    "a norm below 0": (CONFIG, texts(rms_norm_eps=-1.0), "config.json in rig holds a value of the wrong kind ("),
    "layers": (CONFIG, texts(num_hidden_layers=10**9), "num_hidden_layers 1000000000; at most"),
    "more layers than tensors": (CONFIG, texts(num_hidden_layers=5000), "counts 5,000 layers"),
    "list": (TOKENIZER, "[]", "The tokenizer in rig cannot be loaded"),
    "number": (TOKENIZER, "3", "The tokenizer in rig cannot be loaded"),
    "deep tokenizer": (TOKENIZER, "[" * 100_000, "The tokenizer in rig cannot be loaded"),
    "no model": (TOKENIZER, lambda values: values.pop("model"), "The tokenizer in rig cannot be loaded"),
    "added tokens": (TOKENIZER, texts(added_tokens=3), "The tokenizer in rig cannot be loaded"),
    "token beyond": (TOKENIZER, token_at(5000), "has the token 5000, and the model a vocabulary of 1536"),
    "token below": (TOKENIZER, token_at(-1), "The tokenizer in rig cannot be loaded"),
    "longest text": ("tokenizer_config.json", texts(model_max_length={"x": "y"}), "The tokenizer in rig cannot be"),
    "text stops": (STOP, texts(eos_token_id="x"), "eos_token_id 'x'; it has to be a token's number"),
    "list stops": (STOP, texts(eos_token_id=[[1]]), "eos_token_id"),
    "stop below": (STOP, texts(eos_token_id=-1), "eos_token_id -1"),
    "stop beyond": (STOP, texts(eos_token_id=2**40), "eos_token_id 1099511627776"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_short(tmp_path_factory.mktemp("sound") / "rig", "Qwen3-8B", num_hidden_layers=1)


@pytest.fixture
def rig(sound: Path, tmp_path: Path) -> Path:
    """A folder whose files are those of a sound checkpoint until one is replaced."""
    (tmp_path / "rig").mkdir()
    for path in sound.iterdir():
        (tmp_path / "rig" / path.name).symlink_to(path)
    return tmp_path / "rig"


def spoil(rig: Path, name: str, damage: str | Change) -> None:
    if not isinstance(damage, str):
        values = json.loads((rig / name).read_text("utf8"))
        damage(values)
        damage = json.dumps(values)
    (rig / name).unlink(missing_ok=True)
    (rig / name).write_text(damage)


def refused(name: str) -> str:
    with pytest.raises(RigError) as caught:
        load_rig(name, "float32", "cpu")
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 600
    return sentence


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_in_a_sentence(damage: str, rig: Path) -> None:
    name, change, said = DAMAGE[damage]
    spoil(rig, name, change)
    assert said in refused(f"{rig}::ngram")


def test_the_page_and_the_command_line_say_the_same(rig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(rig, *DAMAGE["list"][:2])
    with pytest.raises(RigError, match="The tokenizer in rig cannot be loaded") as caught:
        open_beside(None, f"{rig}::ngram", "float32", unheard)
    assert main(["generate", "--prompt", "hi", "--dtype", "float32", "--rig", f"{rig}::ngram"]) == 1
    assert capsys.readouterr().err.endswith(f"{caught.value}\n")


def test_special_tokens_without_a_row_are_no_damage(rig: Path) -> None:
    def image(values: dict[str, Any]) -> None:
        values["added_tokens"].append({**values["added_tokens"][0], "id": 1536, "content": "<image>"})

    spoil(rig, TOKENIZER, image)
    assert len(load_rig(f"{rig}::ngram", "float32", "cpu").tokenizer) == 1537
