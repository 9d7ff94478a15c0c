"""Texts in which some tokens add other characters than their pieces, as the page and other programs read them."""

from pathlib import Path

import pytest

from engine.trace import RunText, Trace, committed_ids, encode_line, loads
from explorer.claims import recorded_comparison
from explorer.endpoints import summary, trace_lines
from explorer.runs import RunLog
from explorer.two_runs import first_difference
from tests.engine.texts.test_detokenizer import recorded
from tests.engine.tokenizer_kinds import kind

WORDS = "one two three"


@pytest.fixture(params=["sentencepiece", "unigram", "wordpiece", "byte-level"])
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    """Provide a run that wrote the words, two tokens a round."""
    tokenizer = kind(request.param)
    ids = tokenizer.encode(WORDS, add_special_tokens=False)
    rounds = [ids[place:place + 2] for place in range(0, len(ids), 2)]
    return recorded(tmp_path / "run.jsonl", tokenizer, rounds, method="ddtree", drafters=["one"])


def test_programs_and_pages_read_the_text_with_its_spaces(trace: Trace) -> None:
    assert summary(RunLog.recorded("x", trace))["text"] == WORDS
    assert str(RunText(loads(trace_lines(trace, 0).encode()).lines)) == WORDS
    texts = {int(place): text for entry in trace.entries for place, text in encode_line(entry).get("texts", {}).items()}
    named = {token: text for entry in trace.entries for token, text in entry.pieces.items()}
    ids = committed_ids(trace.rounds)
    assert "".join(texts.get(place, named[token]) for place, token in enumerate(ids, 3)) == WORDS
    assert "texts" not in encode_line(trace.end)["end"]


def test_texts_shown_side_by_side_have_their_spaces(trace: Trace) -> None:
    assert first_difference(trace, trace) is None
    assert "".join(recorded_comparison(trace, trace).tracks.texts) == WORDS


def test_bytes_of_an_incomplete_character_are_shown_at_the_end(tmp_path: Path) -> None:
    tokenizer = kind("sentencepiece")
    ids = tokenizer.encode("one 🌳", add_special_tokens=False)[:-1]
    trace = recorded(tmp_path / "run.jsonl", tokenizer, [ids[:-2], ids[-2:]])
    assert set(encode_line(trace.end)["end"]["texts"].values()) == {"\ufffd"}
    assert str(RunText(trace.lines)) == tokenizer.decode(ids)
