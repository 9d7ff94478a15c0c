"""Chat templates in every published form, and the tokens that end a text."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoints.tokenizers import load_tokenizer, stop_tokens
from engine.errors import RigError
from engine.texts.chat import template_of
from tests.engine.published import TOKENIZER

CHOSEN = "{{ messages[0].content }}"
NAMED = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": CHOSEN}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide the folder of a tokenizer without a template, whose end token is <|im_end|> (2)."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, tmp_path)
    write(tmp_path, "config.json", {})
    return tmp_path


def write(folder: Path, file: str, values: Any) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf8")


def in_tokenizer_config(folder: Path, value: Any) -> None:
    values = json.loads((folder / "tokenizer_config.json").read_text())
    write(folder, "tokenizer_config.json", {**values, "chat_template": value})


def beside(folder: Path, default: str = "", values: Any = CHOSEN) -> None:
    write(folder, "additional_chat_templates/tool_use.jinja", "tools")
    if default:
        write(folder, default, values)


@pytest.mark.parametrize("form", [
    lambda folder: in_tokenizer_config(folder, CHOSEN), lambda folder: in_tokenizer_config(folder, NAMED),
    lambda folder: in_tokenizer_config(folder, {"rag": "r", "default": CHOSEN}),
    lambda folder: in_tokenizer_config(folder, [{"name": "rag", "template": CHOSEN}]),
    lambda folder: write(folder, "chat_template.jinja", CHOSEN), lambda folder: beside(folder, "chat_template.jinja"),
    lambda folder: write(folder, "chat_template.json", {"chat_template": CHOSEN}),
    lambda folder: write(folder, "chat_template.json", {"chat_template": NAMED}),
    lambda folder: beside(folder, "chat_template.json", {"chat_template": CHOSEN}),
    lambda folder: write(folder, "processor_config.json", {"chat_template": CHOSEN})])
def test_a_template_is_read_in_every_published_form(form: Callable[[Path], object], folder: Path) -> None:
    form(folder)
    assert template_of(load_tokenizer(folder)) == CHOSEN


def test_a_single_named_template_is_taken_and_none_is_made_up(folder: Path) -> None:
    write(folder, "processor_config.json", {"image_seq_len": 4})
    assert template_of(load_tokenizer(folder)) == ""
    beside(folder)
    assert template_of(load_tokenizer(folder)) == "tools"


@pytest.mark.parametrize(("file", "values"), [
    ("chat_template.json", "{"), ("chat_template.json", [1]), ("chat_template.json", {"chat_template": 7}),
    ("chat_template.json", {"chat_template": [{"name": "default"}]}), ("chat_template.json", {"chat_template": ["x"]}),
    ("processor_config.json", {"chat_template": {"default": None}}),
    ("chat_template", 7), ("chat_template", {"default": 7})])  # the tokenizer's own
def test_a_template_that_is_not_a_text_is_refused(file: str, values: Any, folder: Path) -> None:
    if file == "chat_template":
        in_tokenizer_config(folder, values)
    else:
        write(folder, file, values)
    with pytest.raises(RigError, match=file):
        load_tokenizer(folder)


@pytest.mark.parametrize(("generation", "config", "more", "ids", "named"), [
    (2, 2, {}, {2}, ()), ([2, 0], 2, {}, {0, 2}, ()), ([0, 2], None, {}, {0, 2}, ()), (None, None, {}, {2}, ()),
    (0, None, {}, {0, 2}, ("generation_config.json", "<|endoftext|>", "the tokenizer", "<|im_end|>")),
    (None, 0, {}, {0, 2}, ("config.json", "<|endoftext|>", "the tokenizer")),
    (2, 3, {}, {2, 3}, ("config.json", "<|mask|>")), (2, 99999, {}, {2, 99999}, ("99999",)),
    (2, None, {"m.gguf": (1,)}, {1, 2}, ("m.gguf", "<|im_start|>")), (2, 2, {"m.gguf": (2,)}, {2}, ())])
def test_every_file_may_name_the_end_tokens(
        generation: Any, config: Any, more: dict[str, tuple[int, ...]], ids: set[int], named: tuple[str, ...],
        folder: Path) -> None:
    for inside in (False, True):
        stop = {} if config is None else {"eos_token_id": config}
        write(folder, "config.json", {"text_config": stop} if inside else stop)
        write(folder, "generation_config.json", {} if generation is None else {"eos_token_id": generation})
        found = stop_tokens(folder, load_tokenizer(folder), more)
        assert found.ids == ids and all(part in found.note for part in named) and bool(found.note) == bool(named)


@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "m.gguf"])
@pytest.mark.parametrize("value", ["x", [[1]], -1, 2**40, True, {}])
def test_an_end_token_that_is_not_a_token_is_refused(file: str, value: Any, folder: Path) -> None:
    tokenizer, more = load_tokenizer(folder), {file: [value]} if file == "m.gguf" else {}
    if not more:
        write(folder, file, {"eos_token_id": value})
    with pytest.raises(RigError, match=file):
        stop_tokens(folder, tokenizer, more)
