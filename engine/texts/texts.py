"""What a rig asks of its tokenizer and chat template."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from transformers import PreTrainedTokenizerBase

from engine.checkpoints.text_files import stop_tokens
from engine.checkpoints.tokenizers import load_tokenizer
from engine.errors import RequestError
from engine.recorder import MAX_PIECE_LENGTH, token_piece
from engine.requests.prompts import Turn, familiar
from engine.texts.chat import ChatStyle, chat_style, prompt_ids, template_of
from engine.trace import Piece


@dataclass(frozen=True)
class TokenizerFacts:
    """What depends on no text: the number of tokens, the special ones, whether there is a chat template, and a sentence
    about how it is used."""

    size: int
    mask_id: int | None
    special_ids: tuple[int, ...]
    has_template: bool
    note: str


class Texts(Protocol):
    """From text to tokens and back. RequestError for a text that the tokenizer or the template does not take."""

    def facts(self) -> TokenizerFacts: ...

    def prompt_ids(self, prompt: str, turns: Sequence[Turn] = ()) -> tuple[int, ...]: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...

    def pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]: ...

    def convert_ids_to_tokens(self, token: int) -> str: ...

    def is_familiar(self, prompt: str, kinds: Sequence[str]) -> bool: ...


class TokenizerTexts:
    """``Texts`` of a tokenizer in this process. ``thinking_drafters``: whether each drafter was trained on thinking."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, thinking_drafters: Sequence[bool] = ()) -> None:
        self._tokenizer, self._thinking = tokenizer, tuple(thinking_drafters)

    @classmethod
    def load(cls, folder: Path, vocabulary: int | None, thinking_drafters: Sequence[bool]) -> "TokenizerTexts":
        """Those of a checkpoint's folder; RigError if its tokenizer cannot be loaded or does not fit the vocabulary."""
        return cls(load_tokenizer(folder, vocabulary), thinking_drafters)

    @cached_property
    def _style(self) -> ChatStyle:
        return chat_style(self._tokenizer, self._thinking)

    def facts(self) -> TokenizerFacts:
        ids = [*self._tokenizer.all_special_ids, *self._tokenizer.added_tokens_decoder]
        return TokenizerFacts(
            len(self._tokenizer), self._tokenizer.mask_token_id, tuple(dict.fromkeys(ids)),
            bool(template_of(self._tokenizer)), self._style.note)

    def prompt_ids(self, prompt: str, turns: Sequence[Turn] = ()) -> tuple[int, ...]:
        return prompt_ids(self._tokenizer, prompt, turns, self._style)

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(token_ids)))

    def convert_ids_to_tokens(self, token: int) -> str:
        """How the vocabulary writes a token; empty for none."""
        return str(self._tokenizer.convert_ids_to_tokens(token) or "")

    def pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]:
        """The text of each token, or its bytes if a token alone is no whole characters."""
        pieces: list[Piece] = []
        for token in token_ids:
            text = token_piece(self._tokenizer, token)
            if len(text) > MAX_PIECE_LENGTH:
                raise RequestError(f"The token {token} stands for {len(text):,} characters; at most "
                                   f"{MAX_PIECE_LENGTH:,} are shown.")
            pieces.append(text if isinstance(text, str) else tuple(text))
        return pieces

    def is_familiar(self, prompt: str, kinds: Sequence[str]) -> bool:
        return familiar(prompt, kinds)

    def stop_tokens(self, folder: str, more: Mapping[str, Sequence[int]]) -> tuple[list[int], str]:
        """The tokens that end a text by the files in the folder and by ``more``, and a sentence about them."""
        ids, note = stop_tokens(Path(folder), self._tokenizer, more)
        return sorted(ids), note

    def vocabulary(self) -> dict[str, int]:
        """The id of every token."""
        return dict(self._tokenizer.get_vocab())


class TokenTexts(dict[int, Piece]):
    """The text of single tokens, each looked up once: looking up a round's new tokens takes longer than the rest of
    recording it."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def of(self, token_ids: Iterable[int]) -> dict[int, Piece]:
        """The text of each token, or its bytes if a token alone is no whole characters."""
        wanted = sorted(token_ids)
        if missing := [token for token in wanted if token not in self]:
            self.update(zip(missing, self._texts.pieces(missing), strict=True))
        return {token: self[token] for token in wanted}
