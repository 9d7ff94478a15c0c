"""A checkpoint's tokenizer and chat template, within limits.

Chat templates, normalizers, decoders and the expressions of a card are programs by their publishers. They may loop,
fill memory or end their process, so they run in a separate one, which all rigs share. It ends when it passes a limit,
and is started again for the next request.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from engine.checkpoints.files import display_name
from engine.checkpoints.tokenizers import StopTokens
from engine.errors import RequestError, RigError
from engine.requests.prompts import Turn
from engine.texts.process import TextProcess, shared_process
from engine.texts.tokenizer import TokenizerFacts
from engine.trace import Piece

TRIED_TEXT = "A short text with 2 numbers: 17."


class BrokenTokenizerError(RequestError):
    """A tokenizer, a template or an expression passed a limit or failed, for the reason given."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(f"{program} {reason} on this text; shorten it, or choose another checkpoint.")
        self.program, self.reason = program, reason


class BoundedTokenizer:
    """The tokenizer of a checkpoint's folder, in the shared process."""

    _serials = count()  # a folder that is opened again may hold other files

    def __init__(self, folder: Path, vocabulary: int | None = None, thinking: bool = True,
                 process: TextProcess | None = None) -> None:
        """Load the tokenizer and try a text; RigError if that fails or passes a limit."""
        self._name = display_name(folder)
        self._key = (next(self._serials), str(folder.resolve()), vocabulary, thinking)
        self._process = process or shared_process()
        try:
            facts = self._ask("facts")
            self._facts = TokenizerFacts(**{**facts, "special_ids": tuple(facts["special_ids"])})
            try:
                ids = self.prompt_ids(TRIED_TEXT)
            except BrokenTokenizerError:
                raise
            except RequestError:  # some templates take no turn alone
                return
            self.decode(ids)
            self.pieces(ids)
        except BrokenTokenizerError as error:
            raise RigError(f"{error.program} {error.reason} on a short text, so it is not opened; choose another "
                           "checkpoint.") from error
        except RequestError as error:
            raise RigError(str(error)) from error

    def facts(self) -> TokenizerFacts:
        return self._facts

    def prompt_ids(self, prompt: str, turns: Sequence[Turn] = (), thinking: str = "auto") -> tuple[int, ...]:
        return tuple(self._ask("prompt_ids", prompt, turns, thinking))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._ask("decode", list(token_ids)))

    def pieces(self, token_ids: Sequence[int]) -> Sequence[Piece]:
        return [piece if isinstance(piece, str) else tuple(piece) for piece in self._ask("pieces", list(token_ids))]

    def is_familiar(self, prompt: str, kinds: Sequence[str]) -> bool:
        return bool(self._ask("is_familiar", prompt, kinds))

    def convert_ids_to_tokens(self, token: int) -> str:
        return str(self._ask("convert_ids_to_tokens", token))

    def stop_tokens(self, more: Mapping[str, Sequence[object]]) -> StopTokens:
        """Return the tokens that end a text by the folder's files and by ``more``; RigError if one is none."""
        try:
            ids, note = self._ask("stop_tokens", self._key[1], more)
        except RequestError as error:
            raise RigError(str(error)) from error
        return StopTokens(frozenset(ids), note)

    def vocabulary(self) -> dict[str, int]:
        return dict(self._ask("vocabulary"))

    def _ask(self, function: str, *arguments: Any) -> Any:
        reply = self._process.ask([*self._key, function, *arguments])
        if "refused" in reply:
            raise RequestError(reply["refused"])
        if "failed" in reply:
            program = "An expression under 'familiar' in the card" if function == "is_familiar" else (
                f"The tokenizer or chat template of {self._name}")
            raise BrokenTokenizerError(program, reply["failed"])
        return reply["value"]
