"""The joined texts of tokens equal ``decode`` of the run, for every kind of tokenizer and any split into rounds."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from engine.recorder import Detokenizer, Recorder, TokenTextOverrides
from engine.texts.tokenizer import LocalTokenizer, TokenPieceCache
from engine.trace import RunText, Trace, as_bytes, dumps, load, loads
from tests.engine.tokenizer_kinds import KINDS, kind

TEXTS = ("one two three", " one  two", "\n\none", "don't stop, it's 9 o'clock.", "a 🌳 é τ\nx", "日本",
         "<|im_end|>one <unk> two", "##ing ing", "one<0x41><0xE2>")


@st.composite
def runs(draw: st.DrawFn, name: str) -> list[list[int]]:
    """Draw the tokens of a run's rounds: of texts and at random, with bytes that form no character."""
    tokenizer = kind(name)
    size = len(tokenizer)
    texts = st.sampled_from(TEXTS).map(lambda text: tokenizer.encode(text, add_special_tokens=False))
    some = st.lists(st.integers(0, size - 1), max_size=4)
    last = st.lists(st.integers(max(0, size - 256), size - 1), max_size=6)  # the byte tokens of most kinds
    tokens = [token for part in draw(st.lists(texts | some | last, min_size=1, max_size=6)) for token in part]
    cuts = sorted(draw(st.lists(st.integers(0, len(tokens)), max_size=5)))
    return [tokens[begin:end] for begin, end in pairwise([0, *cuts, len(tokens)])]


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_joined_texts_of_a_run_are_its_text(name: str, data: st.DataObject) -> None:
    tokenizer, texts = kind(name), TokenPieceCache(LocalTokenizer(kind(name)))
    rounds, overrides = data.draw(runs(name)), dict[int, Any]()
    run = TokenTextOverrides(Detokenizer(tokenizer), texts.__getitem__, 100)
    for tokens in rounds:
        overrides |= run.add(tokens)
    overrides |= run.finish()
    ids = [token for tokens in rounds for token in tokens]
    shown = [overrides.get(100 + place, texts[token]) for place, token in enumerate(ids)]
    for pieces in (shown, texts.text_pieces(ids)):
        assert b"".join(map(as_bytes, pieces)).decode("utf8", "replace") == tokenizer.decode(ids)


def recorded(path: Path, tokenizer: PreTrainedTokenizerBase, rounds: list[list[int]], **options: Any) -> Trace:
    """Record these rounds as chains of accepted tokens; return the trace."""
    start = 3
    with Recorder(path, token_text=tokenizer, prompt_ids=[1, 1, 1], strict=True, **options) as recorder:
        for tokens in rounds:
            recorder.round(tokens=tokens, parents=[max(0, place - 1) for place in range(len(tokens))],
                           keep=list(range(len(tokens))), bonus=0, start=start)
            start += len(tokens)
    return load(path)


@pytest.mark.parametrize("name", KINDS)
def test_a_recorded_trace_gives_the_decoded_text(name: str, tmp_path: Path) -> None:
    tokenizer = kind(name)
    half = tokenizer.encode("one 🌳", add_special_tokens=False)[:-1]
    for number, ids in enumerate([*(tokenizer.encode(text, add_special_tokens=False) for text in TEXTS), half]):
        trace = recorded(tmp_path / f"{number}.jsonl", tokenizer, [ids[:1], ids[1:3], ids[3:]][:len(ids) // 2 + 1])
        written = [token for entry in trace.entries for token in entry.round.committed.tolist()]
        assert str(RunText(trace.lines)) == tokenizer.decode(written)
        assert loads(dumps(trace)) is not None and str(RunText(loads(dumps(trace)).lines)) == tokenizer.decode(written)


def test_words_after_a_gap_keep_the_space_before_them(tmp_path: Path) -> None:
    tokenizer = kind("sentencepiece")
    rounds = [tokenizer.encode(word, add_special_tokens=False) for word in ("one", "two", "three", "four")]
    assert str(RunText(recorded(tmp_path / "run.jsonl", tokenizer, rounds, every=2).lines)) == "one three"
    assert str(RunText(recorded(tmp_path / "all.jsonl", tokenizer, rounds).lines)) == "one two three four"
