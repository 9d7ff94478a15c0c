"""Writing ends when all prompts are used; kinds of prompts that are used up are replaced by others."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import RequestError
from recipes.batches import Conversation
from recipes.own_answers import prompts, writing
from recipes.own_answers.prompts import MAX_EMPTY_BATCHES, Message, let_target_write_prompts, one_turn
from recipes.own_answers.shards import AnswerRow
from recipes.own_answers.writing import MIN_NEW_PROMPTS, Writer

ANSWER = tuple(range(10, 18))
FILES = {"self": 2, "seed": 1, "code": 3}  # files with new prompts by kind


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder of a rig's answers, without a model; each file holds twenty new prompts at first."""
    def new_conversations(_: Writer, kind: str, number: int, *__: Any) -> list[list[Message]]:
        count = 20 if number < FILES[kind] else MIN_NEW_PROMPTS - 1
        return [one_turn(f"What is {kind} {number} {conversation}?") for conversation in range(count)]

    def answered(_: Writer, conversations: Sequence[Sequence[Message]]) -> list[AnswerRow]:
        return [AnswerRow(Conversation((1, 2), ANSWER), True, row) for row in range(len(conversations))]

    places = {"target_folder": "", "answers_folder": "answers", "work_folder": "work", "completion_marker": "enough"}
    for name, path in places.items():
        monkeypatch.setattr(writing, name, lambda rig, path=path: tmp_path / path)
    for name in ("load_causal", "load_tokenizer", "BatchDecoder"):
        monkeypatch.setattr(writing, name, lambda *_: None)
    monkeypatch.setattr(writing, "write_features", lambda model, conversations, folder: folder.mkdir(parents=True))
    monkeypatch.setattr(Writer, "turns_of", lambda *_: ["one"])
    monkeypatch.setattr(Writer, "hold_out", lambda *_: None)
    monkeypatch.setattr(Writer, "new_conversations", new_conversations)
    monkeypatch.setattr(Writer, "answered", answered)
    return tmp_path


@pytest.mark.parametrize(("tokens", "enough"), [(30 * len(ANSWER), True), (10**6, False)])
def test_used_up_kinds_of_prompts_are_replaced_until_the_end(
        folder: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, enough: bool) -> None:
    monkeypatch.setattr("sys.argv", ["writing", "--tokens", str(tokens)])
    if enough:
        writing.main()
    else:
        with pytest.raises(SystemExit, match=f"{6 * 20 * len(ANSWER)} .*{tokens}"):
            writing.main()
    kept = sorted(path.stem for path in (folder / "answers").iterdir())
    assert len(kept) == 2 if enough else kept == [
        "code-00000", "code-00001", "code-00002", "seed-00000", "self-00000", "self-00001"]
    assert (folder / "enough").exists() == enough


def test_writing_ends_if_no_answer_can_be_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "answered", lambda *_: [])
    monkeypatch.setitem(FILES, "code", 99)
    with pytest.raises(RequestError, match=str(MAX_EMPTY_BATCHES)):
        writing.write(Writer("any"), 100)


@pytest.mark.parametrize("new", [0, 5])
def test_a_target_that_repeats_itself_is_not_asked_forever(monkeypatch: pytest.MonkeyPatch, new: int) -> None:
    batches: list[int] = []

    def write_answers(_: Any, rows: Sequence[Any], *__: Any) -> list[Any]:
        batches.append(len(rows))
        number = min(len(batches), new)
        return [SimpleNamespace(tokens=(number, *range(100, 110)), ended=True)] * len(rows)
    monkeypatch.setattr(prompts, "write_answers", write_answers)
    decoder: Any = None
    tokenizer: Any = SimpleNamespace(
        apply_chat_template=lambda *_, **__: "@@", encode=lambda *_, **__: [1], eos_token_id=2,
        decode=lambda tokens: f"What is the number {tokens[0]}?")
    assert len(let_target_write_prompts(decoder, tokenizer, 0, {"What is the number 0?"})) == new
    assert len(batches) == new + MAX_EMPTY_BATCHES
