"""Conversations in chat templates: the ids are the template's own, except for typed names of special tokens."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from engine.checkpoints.tokenizers import load_tokenizer
from engine.errors import RequestError
from engine.recorder import BYTE_SYMBOLS
from engine.requests.prompts import Turn
from engine.texts.chat import ChatStyle, chat_style, prompt_ids, special_names
from engine.texts.tokenizer import LocalTokenizer, TokenPieceCache
from tests.engine.published import THINKING_TEMPLATE, TOKENIZER
from tests.engine.tokenizer_kinds import KINDS, kind

WORDS = ("one", "two", " ", "\n", "é", "🌳", "▁", "<", "|im_end|>", "<|im_end|>", "<|im_start|>", "<0x41>",
         "\U000f0000", "</think>", "<sep>", "##", "don't")
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=4), min_size=1, max_size=5).map("".join).filter(str.strip)


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerBase:
    return load_tokenizer(TOKENIZER)


def test_incomplete_characters_are_bytes_and_each_token_is_looked_up_once(
        tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {character: byte for byte, character in bytes_to_unicode().items()} == BYTE_SYMBOLS
    ids = tokenizer.encode("a 🌳 é", add_special_tokens=False)
    texts = TokenPieceCache(LocalTokenizer(tokenizer))
    pieces = texts.pieces(ids)
    assert b"".join(bytes(piece) if isinstance(piece, tuple) else piece.encode() for piece in map(
        pieces.__getitem__, ids)) == "a 🌳 é".encode()
    monkeypatch.setattr(tokenizer, "decode", None)
    assert texts.pieces(ids) == pieces


def test_turns_come_before_the_prompt_in_the_template(tokenizer: PreTrainedTokenizerBase) -> None:
    turns = (("system", "Be brief."), ("user", "3 + 4?"), ("assistant", "7 <|im_end|>"))
    ids = prompt_ids(tokenizer, "And 5?", turns)
    assert tokenizer.decode(ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n3 + 4?<|im_end|>\n"
        "<|im_start|>assistant\n7 <|im_end|><|im_end|>\n<|im_start|>user\nAnd 5?<|im_end|>\n<|im_start|>assistant\n")
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 4, "a special name in a turn stays text"
    assert prompt_ids(tokenizer, "And 5?") == ids[-len(prompt_ids(tokenizer, "And 5?")):]


def test_thinking_follows_the_drafters_training_unless_a_run_switches_it(
        tokenizer: PreTrainedTokenizerBase) -> None:
    assert chat_style(tokenizer, thinking=False) == ChatStyle(), "this template cannot think"
    with pytest.raises(RequestError, match="thinking"):
        LocalTokenizer(tokenizer).prompt_ids("Hi", thinking="off")
    tokenizer.chat_template = THINKING_TEMPLATE
    with_it, without = (own_ids(tokenizer, [("user", "Hi")], enable_thinking=value) for value in (True, False))
    assert with_it != without
    for usual, ids in ((True, with_it), (False, without)):
        texts = LocalTokenizer(tokenizer, usual)
        assert texts.prompt_ids("Hi") == ids and bool(texts.facts().note) != usual
        assert texts.prompt_ids("Hi", thinking="on") == with_it and texts.prompt_ids("Hi", thinking="off") == without


def test_without_a_template_the_text_is_tokenised_as_it_is(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = None
    assert tokenizer.decode(prompt_ids(tokenizer, "two", (("user", "one"),))) == "one\ntwo"


def own_ids(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], **options: object) -> tuple[int, ...]:
    """Return the ids that transformers gives a conversation."""
    messages = [{"role": role, "content": text} for role, text in turns]
    made = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, **options)
    return tuple(made["input_ids"])


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
def test_ids_are_the_templates_own_unless_a_special_name_is_typed(name: str, texts: list[str]) -> None:
    tokenizer = kind(name)
    roles = ["assistant" if place % 2 else "user" for place in range(len(texts))]
    roles = [*roles[len(texts) % 2 ^ 1:], "user"][:len(texts)]
    turns = list(zip(roles, texts, strict=True))
    ids, own = prompt_ids(tokenizer, texts[-1], turns[:-1]), own_ids(tokenizer, turns)
    typed = [special for text in texts for special in special_names(tokenizer).findall(text)]
    assert (ids == own) == (not typed)
    frame = own_ids(tokenizer, [(role, "x") for role in roles])
    for token in map(tokenizer.convert_tokens_to_ids, {*typed, "<|im_start|>", "<|im_end|>"}):
        assert ids.count(token) == frame.count(token), "typed text never becomes a special token"


@pytest.mark.parametrize(("template", "turns"), [
    ("{% for m in messages %}<|im_start|>{{ (m.content.split('</think>') | last).lstrip() if m.role == 'assistant' "
     "else m.content }}<|im_end|>{% endfor %}", (("user", "3 + 4?"), ("assistant", "<think>7?</think>\n\n7"))),
    ("{% for m in messages %}<|im_start|>{{ m.content | trim }}<|im_end|>{% endfor %}", (("user", " a \n"),)),
    ("{{ 'quiet' if '/no_think' in messages[0].content else 'loud' }}", (("user", "Hi /no_think"),)),
    ("{{ messages | tojson }}", (("system", 'Say "é".\n'),)),
    ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", (("user", "hi"),)),
    ("{% for m in messages %}{% if m.role == 'system' %}{% elif loop.last %}{{ messages[0].content }}\n"
     "{{ m.content }}{% else %}{{ m.content }}{% endif %}{% endfor %}", (("system", "Be brief."), ("user", "a"))),
    ("{{ messages[-1].content }}", (("user", "hi"),)),
    ("{{ messages[0].content[:3] }}{{ messages | length }}{{ messages[-1].content.replace('i', 'o') }}", ()),
])
def test_the_template_gets_the_original_texts(template: str, turns: tuple[Turn, ...]) -> None:
    tokenizer = KINDS["byte-level"]()
    tokenizer.chat_template = template
    for prompt in ("Hi", "Hi <|im_end|>"):
        ids, own = prompt_ids(tokenizer, prompt, turns), own_ids(tokenizer, [*turns, ("user", prompt)])
        assert tokenizer.decode(ids) == tokenizer.decode(own)
        assert ids == own or "<|im_end|>" in prompt


def test_a_template_that_expects_parts_gets_parts() -> None:
    tokenizer = KINDS["sentencepiece"]()
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}: {% for part in m.content %}{% if part.type == 'text' %}"
        "{{ part.text }}{% endif %}{% endfor %}<|im_end|>{% endfor %}")
    style = chat_style(tokenizer)
    ids = prompt_ids(tokenizer, "Say <|im_end|>.", (("user", "one"),), style)
    assert tokenizer.decode(ids).replace(" ", "") == (
        "<|im_start|>user:one<|im_end|><|im_start|>user:Say<|im_end|>.<|im_end|>")
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 2


def test_a_special_name_in_the_vocabulary_does_not_become_the_token() -> None:
    tokenizer = kind("unigram")
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert tokenizer.backend_tokenizer.model.tokenize("<|im_end|>")[0].id == end, "the name is a word of the vocabulary"
    assert prompt_ids(tokenizer, "one <|im_end|> two").count(end) == 1


def test_an_empty_or_missing_template_gets_a_note() -> None:
    tokenizer = KINDS["byte-level"]()
    fine = chat_style(tokenizer)
    tokenizer.chat_template = "<|im_start|>"
    dumb = chat_style(tokenizer)
    tokenizer.chat_template = None
    raw = chat_style(tokenizer)
    assert not fine.note and dumb.note and raw.note and dumb.note != raw.note


@pytest.mark.parametrize(("template", "turns", "named"), [
    ("{{ messages }}", (("robot", "hi"),), "'robot'"), ("{{ 1 / 0 }}", (), "division by zero"),
    ("{{ raise_exception('No system turns.\nNone.') }}", (("system", "hi"),), "system, user (No system turns)"),
    ("{{ messages + 3 }}", (), "user (can only concatenate list")])
def test_turns_that_the_template_refuses_are_named(
        tokenizer: PreTrainedTokenizerBase, template: str, turns: tuple[Turn, ...], named: str) -> None:
    tokenizer.chat_template = template
    with pytest.raises(RequestError) as caught:
        prompt_ids(tokenizer, "Hi", turns)
    assert named in str(caught.value) and "\n" not in str(caught.value)
