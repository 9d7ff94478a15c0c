"""Tokenizers, templates and expressions that loop, fill memory or panic become one sentence, and other texts are still
served."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoints.tokenizers import load_tokenizer
from engine.errors import RequestError, RigError
from engine.records import PromptRequest
from engine.serving.rigs import load_rig
from engine.texts.bounded import BoundedTokenizer
from engine.texts.process import TextProcess, shared_process
from engine.texts.tokenizer import LocalTokenizer
from tests.engine.published import TOKENIZER

Change = Callable[[dict[str, Any]], object]
LOOPS = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"


def replaced(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def normalized(*steps: dict[str, Any]) -> Change:
    return lambda values: values.update(normalizer={"type": "Sequence", "normalizers": list(steps)})


def decoded(*steps: dict[str, Any]) -> Change:
    return lambda values: values.update(decoder={"type": "Sequence", "decoders": list(steps)})


BACKTRACKS = normalized(replaced("(x+x+)+y", "z"))


@pytest.fixture(scope="module")
def process() -> Iterator[TextProcess]:
    """Provide a text process with a limit of one second per text."""
    one = TextProcess(seconds=1)
    yield one
    one.close()


def checkpoint(folder: Path, change: Change | None = None, template: str = "") -> Path:
    """Copy the demo rig's tokenizer with a change or another template."""
    shutil.copytree(TOKENIZER, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    if change:
        values = json.loads((folder / "tokenizer.json").read_text("utf8"))
        change(values)
        (folder / "tokenizer.json").write_text(json.dumps(values), "utf8")
    if template:
        (folder / "chat_template.jinja").write_text(template, "utf8")
    return folder


@pytest.mark.parametrize(("change", "template", "limit"), [
    (None, LOOPS, "1 s"), (None, "{{ 'x' * 3000000000 }}", "2 GiB"),
    (normalized(*[replaced(".", "y" * 1000)] * 3), "", "2 GiB"),
    (decoded(replaced(".", "y" * 300)), "", "1,024")])
def test_a_tokenizer_that_exceeds_a_limit_on_a_short_text_is_refused(
        change: Change | None, template: str, limit: str, tmp_path: Path, process: TextProcess) -> None:
    folder = checkpoint(tmp_path / "odd", change, template)
    with pytest.raises(RigError) as caught:
        BoundedTokenizer(folder, process=process)
    assert limit in str(caught.value) and "\n" not in str(caught.value)
    assert BoundedTokenizer(TOKENIZER, process=process).decode([5, 6]), "the next tokenizer is opened"


@pytest.mark.parametrize("change", [BACKTRACKS, decoded({"type": "Fuse"}, replaced("(x+x+)+y", "z")), lambda values: (
    values.update(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated",
                                 "invert": False}))])
def test_a_panic_becomes_a_sentence_and_the_next_text_is_read(
        change: Change, tmp_path: Path, process: TextProcess) -> None:
    texts = BoundedTokenizer(checkpoint(tmp_path / "odd", change), process=process)
    with pytest.raises(RequestError, match="PanicException") as caught:
        texts.decode(texts.prompt_ids("x" * 60))
    assert "\n" not in str(caught.value)
    assert texts.decode(texts.prompt_ids("Hello."))


def test_texts_survive_the_end_of_their_process(process: TextProcess) -> None:
    texts = BoundedTokenizer(TOKENIZER, process=process)
    with pytest.raises(RequestError, match=r"familiar.*1 s"):
        texts.is_familiar("x" * 60, ["(x+x+)+y"])
    assert texts.is_familiar("How many?", ["how"]) and not texts.is_familiar("How many?", ["many$"])
    assert texts.decode(texts.prompt_ids("Hello.")).count("Hello.") == 1


def test_texts_equal_those_of_the_tokenizer_itself(process: TextProcess) -> None:
    bounded, own = BoundedTokenizer(TOKENIZER, process=process), LocalTokenizer(load_tokenizer(TOKENIZER))
    turns = (("user", "3 + 4?"), ("assistant", "7 🌳"))
    ids = bounded.prompt_ids("And\ud7ff 5?", turns)
    assert ids == own.prompt_ids("And\ud7ff 5?", turns)
    assert bounded.pieces(ids) == own.pieces(ids) and bounded.decode(ids) == own.decode(ids)
    assert bounded.facts() == own.facts() and bounded.vocabulary() == own.vocabulary()


def test_a_rig_refuses_one_prompt_and_answers_the_next(tmp_path: Path) -> None:
    rig = tmp_path / "rig"
    shutil.copytree(TOKENIZER, rig)
    values = json.loads((rig / "tokenizer.json").read_text("utf8"))
    BACKTRACKS(values)
    (rig / "tokenizer.json").write_text(json.dumps(values), "utf8")
    live = load_rig(f"{rig}::ngram", "float32", "cpu")
    first = live.generate("What is 3 + 4?", method="autoregressive", max_tokens=8)
    next(first)
    with pytest.raises(RequestError, match="PanicException"):
        live.generate("x" * 60, method="autoregressive", max_tokens=8)
    shared_process().close()  # as after a limit
    list(first)
    again = live.run(PromptRequest("What is 3 + 4?", method="autoregressive", max_tokens=8))
    assert len(list(again)) > 2 and first.text
