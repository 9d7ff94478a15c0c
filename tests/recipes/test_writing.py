"""Prompts come to an end: kinds that are used up give way to the others, and one sentence says when nothing is left."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import RequestError
from recipes.batches import Conversation
from recipes.own_answers import prompts, writing
from recipes.own_answers.prompts import MAX_BARREN, Message, one_turn, write_prompts_itself
from recipes.own_answers.shards import AnswerRow, read_shard, write_shard
from recipes.own_answers.writing import MIN_NEW_PROMPTS, Writer

ANSWER = tuple(range(10, 18))


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of one's own, and no model."""
    monkeypatch.setattr(writing, "target_folder", lambda rig: tmp_path)
    monkeypatch.setattr(writing, "answers_folder", lambda rig: tmp_path / "answers")
    monkeypatch.setattr(writing, "work_folder", lambda rig: tmp_path / "work")
    monkeypatch.setattr(writing, "enough", lambda rig: tmp_path / "enough")
    for name in ("load_causal", "load_tokenizer", "BatchDecoder"):
        monkeypatch.setattr(writing, name, lambda *_: None)
    monkeypatch.setattr(writing, "write_features", lambda model, talks, folder: folder.mkdir(parents=True))
    monkeypatch.setattr(Writer, "turns_of", lambda *_: ["one"])
    monkeypatch.setattr(Writer, "hold_out", lambda *_: None)
    return tmp_path


def answers(_: Writer, talks: Sequence[Sequence[Message]]) -> list[AnswerRow]:
    return [AnswerRow(Conversation((1, 2), ANSWER), True, row) for row in range(len(talks))]


class Supply:
    """So many files of new prompts of each kind."""

    def __init__(self, itself: int, seed: int, code: int) -> None:
        self.files, self.asked = {"self": itself, "seed": seed, "code": code}, list[str]()

    def __call__(self, kind: str, number: int, known: set[str], shards: Sequence[Path]) -> list[list[Message]]:
        self.asked.append(kind)
        left = self.files[kind] - number
        return [one_turn(f"What is {kind} {number} {talk}?") for talk in range(20 if left > 0 else MIN_NEW_PROMPTS - 1)]


def test_kinds_that_are_used_up_give_way_and_the_end_is_one_sentence(
        folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    supply = Supply(2, 1, 3)
    monkeypatch.setattr(Writer, "new_talks", lambda _, *asked: supply(*asked))
    monkeypatch.setattr(Writer, "answered", answers)
    monkeypatch.setattr("sys.argv", ["writing", "--tokens", "1000000"])
    with pytest.raises(SystemExit) as ended:
        writing.main()
    sentence = str(ended.value)
    assert "the seeds are used up" in sentence
    assert sentence.endswith(f"So far there are {6 * 20 * len(ANSWER)} of 1000000 tokens.")
    assert ended.value.code == sentence, "which Python prints, and ends with 1"
    kept = sorted(path.stem for path in (folders / "answers").iterdir())
    assert kept == ["code-00000", "code-00001", "code-00002", "seed-00000", "self-00000", "self-00001"]
    assert not (folders / "enough").exists() and len(supply.asked) == 6 + 3, "who is used up is not asked again"


def test_enough_is_enough(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supply = Supply(9, 9, 9)
    monkeypatch.setattr(Writer, "new_talks", lambda _, *asked: supply(*asked))
    monkeypatch.setattr(Writer, "answered", answers)
    monkeypatch.setattr("sys.argv", ["writing", "--tokens", str(30 * len(ANSWER))])
    writing.main()
    assert (folders / "enough").exists() and len(list((folders / "answers").iterdir())) == 2


def test_answers_of_which_none_can_be_kept_end_it_too(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supply = Supply(99, 99, 99)
    monkeypatch.setattr(Writer, "new_talks", lambda _, *asked: supply(*asked))
    monkeypatch.setattr(Writer, "answered", lambda *_: [])
    with pytest.raises(RequestError, match=f"answers to the last {MAX_BARREN} files of prompts could be kept"):
        writing.write(Writer("any"), 100)


def test_a_prompt_file_without_a_prompt_is_passed_over(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "answered", answers)
    writer = Writer("any")
    (writer.prompts / "code-00000.jsonl").write_text("")
    (writer.prompts / "seed-00000.jsonl").write_text(json.dumps({"messages": one_turn("Why?")}) + "\n")
    assert [writer.round(), writer.round()] == ["code-00000", "seed-00000"]
    assert writer.tokens() == len(ANSWER) and list(read_shard(writer.shard("code-00000"))) == []


def test_a_shard_without_answers_can_be_read(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.npz", [])
    assert list(read_shard(tmp_path / "a.npz")) == []


@pytest.mark.parametrize("new", [0, 5])
def test_a_target_that_repeats_itself_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch, new: int) -> None:
    batches: list[int] = []

    def write_answers(_: Any, rows: Sequence[Any], *__: Any) -> list[Any]:
        batches.append(len(rows))
        number = min(len(batches), new)
        return [SimpleNamespace(tokens=(number, *range(100, 110)), ended=True)] * len(rows)
    monkeypatch.setattr(prompts, "write_answers", write_answers)
    tokenizer = SimpleNamespace(
        apply_chat_template=lambda *_, **__: "@@", encode=lambda *_, **__: [1], eos_token_id=2,
        decode=lambda tokens: f"What is the number {tokens[0]}?")
    known = {"What is the number 0?"}
    assert len(write_prompts_itself(None, tokenizer, 0, known)) == new  # type: ignore[arg-type]
    assert len(batches) == new + MAX_BARREN
