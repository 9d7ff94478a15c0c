"""Between text and tokens: a prompt in the chat template, and the text of single tokens."""

from __future__ import annotations

from collections.abc import Iterable

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from engine.errors import RequestError
from engine.trace import Piece

PLACE = "\u241a"  # stands for the prompt while the template is rendered


def prompt_ids(tokenizer: PreTrainedTokenizerBase, prompt: str) -> tuple[int, ...]:
    """The prompt as the user's turn. Text that looks like a special token stays text."""
    if not prompt.strip():
        raise RequestError("The prompt is empty; write at least one character.")
    turn = [{"role": "user", "content": PLACE}]
    before, after = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True).split(PLACE)
    return (*tokenizer.encode(before, add_special_tokens=False),
            *tokenizer.encode(prompt, add_special_tokens=False, split_special_tokens=True),
            *tokenizer.encode(after, add_special_tokens=False))


def pieces(tokenizer: PreTrainedTokenizerBase, token_ids: Iterable[int]) -> dict[int, Piece]:
    """The text of each token, or its bytes where they are not whole characters by themselves."""
    return {token: _piece(tokenizer, token) for token in token_ids}


def _piece(tokenizer: PreTrainedTokenizerBase, token: int) -> Piece:
    text = tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    if "\ufffd" not in text:
        return str(text)
    to_byte = {character: byte for byte, character in bytes_to_unicode().items()}
    symbols = tokenizer.convert_ids_to_tokens(token)
    if all(symbol in to_byte for symbol in symbols):
        return tuple(to_byte[symbol] for symbol in symbols)
    return str(text)
