"""A rig's tokenizer with its chat template, and what its tokens add to a text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerBase

from engine.checkpoints.tokenizers import stop_tokens
from engine.errors import RequestError
from engine.recorder import MAX_PIECE_LENGTH, Detokenizer, TokenTextOverrides
from engine.requests.prompts import Turn, matches_patterns
from engine.texts.chat import ChatStyle, chat_style, prompt_ids, switched, template_of
from engine.trace import Piece


@dataclass(frozen=True)
class TokenizerFacts:
    """Facts of a tokenizer: how many tokens it has, the special ones, whether there is a chat template, a sentence
    about how it is used, and whether a token adds the same bytes in any context."""

    size: int
    mask_id: int | None
    special_ids: tuple[int, ...]
    has_template: bool
    note: str
    is_context_free: bool


class ChatTokenizer(Protocol):
    """From text to tokens and back. RequestError for a text that the tokenizer or its chat template rejects."""

    def facts(self) -> TokenizerFacts: ...

    def prompt_ids(self, prompt: str, turns: Sequence[Turn] = (), thinking: str = "auto") -> tuple[int, ...]: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...

    def pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]: ...

    def convert_ids_to_tokens(self, token: int) -> str: ...

    def is_familiar(self, prompt: str, kinds: Sequence[str]) -> bool: ...


class LocalTokenizer:
    """A tokenizer in this process; see ``chat_style`` for ``thinking``."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, thinking: bool = True) -> None:
        self._tokenizer, self._thinking = tokenizer, thinking
        self._detokenizer = Detokenizer(tokenizer)

    @cached_property
    def _style(self) -> ChatStyle:
        return chat_style(self._tokenizer, self._thinking)

    def facts(self) -> TokenizerFacts:
        ids = [*self._tokenizer.all_special_ids, *self._tokenizer.added_tokens_decoder]
        return TokenizerFacts(
            len(self._tokenizer), self._tokenizer.mask_token_id, tuple(dict.fromkeys(ids)),
            bool(template_of(self._tokenizer)), self._style.note, is_context_free(self._tokenizer))

    def prompt_ids(self, prompt: str, turns: Sequence[Turn] = (), thinking: str = "auto") -> tuple[int, ...]:
        return prompt_ids(self._tokenizer, prompt, turns, switched(self._tokenizer, self._style, thinking))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(token_ids)))

    def convert_ids_to_tokens(self, token: int) -> str:
        """Return how the vocabulary writes a token; "" for none."""
        return str(self._tokenizer.convert_ids_to_tokens(token) or "")

    def pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]:
        """Return what each token adds within a text, or its bytes if it alone is no whole characters."""
        pieces: list[Piece] = []
        for token in token_ids:
            text = self._detokenizer.piece(token)
            if len(text) > MAX_PIECE_LENGTH:
                raise RequestError(f"The token {token} stands for {len(text):,} characters; at most "
                                   f"{MAX_PIECE_LENGTH:,} are shown.")
            pieces.append(text if isinstance(text, str) else tuple(text))
        return pieces

    def is_familiar(self, prompt: str, kinds: Sequence[str]) -> bool:
        return matches_patterns(prompt, kinds)

    def stop_tokens(self, folder: str, more: Mapping[str, Sequence[object]]) -> tuple[list[int], str]:
        """Return the tokens that end a text by the files in the folder and by ``more``, and a sentence about them."""
        ids, note = stop_tokens(Path(folder), self._tokenizer, more)
        return sorted(ids), note

    def vocabulary(self) -> dict[str, int]:
        return dict(self._tokenizer.get_vocab())


def is_context_free(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether each token adds the same bytes in any context."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return (backend is not None and isinstance(backend.decoder, ByteLevel) and isinstance(backend.model, BPE)
            and not getattr(tokenizer, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", 0))


class TokenPieceCache(dict[int, Piece]):
    """The text of single tokens, each looked up once, because that takes longer than the rest of recording a round.

    It is the tokenizer of its own ``Detokenizer``: another process may answer, so answers about one token are kept.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer, self._detokenizer = tokenizer, Detokenizer(self)
        self._decode_one = cache(lambda token: tokenizer.decode([token]))
        self.convert_ids_to_tokens = cache(tokenizer.convert_ids_to_tokens)

    def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
        return self._decode_one(tokens[0]) if len(tokens) == 1 else self._tokenizer.decode(tokens)

    def __missing__(self, token: int) -> Piece:
        return self.pieces([token])[token]

    def overrides(self, start: int = 0) -> TokenTextOverrides | None:
        """Return the overrides of a run that begins at position ``start``; None if tokens always add their pieces."""
        if self._tokenizer.facts().is_context_free:
            return None
        return TokenTextOverrides(self._detokenizer, self.__getitem__, start)

    def text_pieces(self, token_ids: Sequence[int]) -> list[Piece]:
        """Return what each token of a finished text adds to it."""
        pieces, overrides = self.pieces(set(token_ids)), self.overrides()
        changed = {**overrides.add(list(token_ids)), **overrides.finish()} if overrides else {}
        return [changed.get(place, pieces[token]) for place, token in enumerate(token_ids)]

    def pieces(self, token_ids: Iterable[int]) -> dict[int, Piece]:
        """Return what each token adds within a text, or its bytes if it alone is no whole characters."""
        ordered = sorted(token_ids)
        if missing := [token for token in ordered if token not in self]:
            self.update(zip(missing, self._tokenizer.pieces(missing), strict=True))
        return {token: self[token] for token in ordered}
