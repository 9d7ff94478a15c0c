"""Conversations in templates: turns, thinking, tokenizers without a template, and text that plays a special token."""

import pytest
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from engine.checkpoints.tokenizers import load_tokenizer
from engine.errors import RequestError
from engine.recorder import BYTE_SYMBOLS
from engine.requests.prompts import Turn
from engine.serving.chat import ChatStyle, TokenTexts, chat_style, prompt_ids
from tests.engine.published import THINKING_TEMPLATE, TOKENIZER


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerBase:
    return load_tokenizer(TOKENIZER)


def test_half_a_character_is_its_bytes_and_each_token_is_looked_up_once(
        tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {character: byte for byte, character in bytes_to_unicode().items()} == BYTE_SYMBOLS
    ids = tokenizer.encode("a 🌳 é", add_special_tokens=False)
    texts = TokenTexts(tokenizer)
    pieces = [texts.of(ids)[token] for token in ids]
    assert b"".join(bytes(piece) if isinstance(piece, tuple) else piece.encode() for piece in pieces) == (
        "a 🌳 é".encode())
    looked_up: list[int] = []

    def decode(ids: list[int], **_: object) -> str:
        looked_up.extend(ids)
        return {1: "τ", 2: "\ufffd", 3: "\ufffd", 4: "\ufffd"}[ids[0]]
    monkeypatch.setattr(tokenizer, "decode", decode)
    monkeypatch.setattr(tokenizer, "convert_ids_to_tokens", {2: "Ïa", 3: "<0xCF>", 4: "▁odd"}.get)
    texts = TokenTexts(tokenizer)
    assert texts.of([1, 2, 3]) == {1: "τ", 2: (0xCF, 0x61), 3: (0xCF,)}
    assert texts.of({2, 4}) == {2: (0xCF, 0x61), 4: "\ufffd"} and looked_up == [1, 2, 3, 4]


def test_turns_come_before_the_prompt_in_the_template(tokenizer: PreTrainedTokenizerBase) -> None:
    turns = (("system", "Be brief."), ("user", "3 + 4?"), ("assistant", "7 <|im_end|>"))
    ids = prompt_ids(tokenizer, "And 5?", turns)
    assert tokenizer.decode(ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n3 + 4?<|im_end|>\n"
        "<|im_start|>assistant\n7 <|im_end|><|im_end|>\n<|im_start|>user\nAnd 5?<|im_end|>\n<|im_start|>assistant\n")
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 4, "what a turn says stays text"
    assert prompt_ids(tokenizer, "And 5?") == ids[-len(prompt_ids(tokenizer, "And 5?")):]


def test_thinking_is_off_where_a_drafter_never_saw_it(tokenizer: PreTrainedTokenizerBase) -> None:
    assert chat_style(tokenizer, [False]) == ChatStyle(), "this template cannot think"
    tokenizer.chat_template = THINKING_TEMPLATE
    assert chat_style(tokenizer, [True, True]) == chat_style(tokenizer, []) == ChatStyle()
    style = chat_style(tokenizer, [True, False])
    assert style.options == {"enable_thinking": False} and style.note.startswith("Thinking is off")
    with_it, without = prompt_ids(tokenizer, "Hi"), prompt_ids(tokenizer, "Hi", (), style)
    assert tokenizer.decode(without) == tokenizer.decode(with_it) + "<think>\n\n</think>\n\n"


def test_a_tokenizer_without_a_template_gets_the_text_as_it_is(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = None
    assert tokenizer.decode(prompt_ids(tokenizer, "two", (("user", "one"),))) == "one\ntwo"


@pytest.mark.parametrize(("template", "turns", "sentence"), [
    ("{{ messages }}", (("robot", "hi"),), "A turn has the role 'robot'; it has to be one of system, user, assistant."),
    ("{{ raise_exception('No system turns.\nNone.') }}", (("system", "hi"),),
     "The chat template of this rig does not take turns of system, user (No system turns)."),
    ("{{ 1 / 0 }}", (), "does not take turns of user (division by zero)."),
    ("{{ messages + 3 }}", (), "does not take turns of user (can only concatenate list"),
    ("{{ messages[-1].content }}", (("user", "hi"),), "leaves a turn out"),
])
def test_turns_that_the_template_does_not_take(
        tokenizer: PreTrainedTokenizerBase, template: str, turns: tuple[Turn, ...], sentence: str) -> None:
    tokenizer.chat_template = template
    with pytest.raises(RequestError) as caught:
        prompt_ids(tokenizer, "Hi", turns)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
