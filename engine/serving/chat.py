"""From text to tokens and back: a conversation in the chat template, and the text of single tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase

from engine.checkpoints.files import first_line
from engine.errors import RequestError
from engine.recorder import token_piece
from engine.requests.prompts import ROLES, Turn
from engine.trace import Piece

THINKING = "enable_thinking"  # the option's name in chat templates


@dataclass(frozen=True)
class ChatStyle:
    """Options for rendering the chat template, and a sentence about them for the reader."""

    options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def chat_style(tokenizer: PreTrainedTokenizerBase, thinking_drafters: Sequence[bool]) -> ChatStyle:
    """Options that switch thinking off, where the template has that switch and a drafter was trained on answers without
    thinking. Of such a drafter's proposals a quarter is accepted in a thinking text, and more than half without."""
    if THINKING not in template_of(tokenizer) or all(thinking_drafters):
        return ChatStyle()
    return ChatStyle({THINKING: False}, "Thinking is off: a drafter of this rig was trained on answers without it.")


def prompt_ids(tokenizer: PreTrainedTokenizerBase, prompt: str, turns: Sequence[Turn] = (),
               style: ChatStyle | None = None) -> tuple[int, ...]:
    """The token ids of the prompt as the user's turn after earlier ``turns``. Text that looks like a special token
    stays text. RequestError for an empty prompt, and for turns that the template does not take.

    Without a chat template the texts are tokenised as they are, one line each.
    """
    if not prompt.strip():
        raise RequestError("The prompt is empty; write at least one character.")
    odd = [role for role, _ in turns if role not in ROLES]
    if odd:
        raise RequestError(f"A turn has the role {odd[0]!r}; it has to be one of {', '.join(ROLES)}.")
    texts = [*(text for _, text in turns), prompt]
    if not template_of(tokenizer):
        return tuple(tokenizer.encode("\n".join(texts), split_special_tokens=True))
    frame = _frame(tokenizer, [role for role, _ in turns] + ["user"], style or ChatStyle())
    ids = list(tokenizer.encode(frame[0], add_special_tokens=False))
    for text, after in zip(texts, frame[1:], strict=True):
        ids += tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        ids += tokenizer.encode(after, add_special_tokens=False)
    return tuple(ids)


def template_of(tokenizer: PreTrainedTokenizerBase) -> str:
    """The chat template's text; empty where there is none."""
    return tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else ""


def _frame(tokenizer: PreTrainedTokenizerBase, roles: Sequence[str], style: ChatStyle) -> list[str]:
    """The strings that the template writes before, between and after the texts of these turns."""
    marks = [f"\u241a{number}\u241a" for number in range(len(roles))]  # placeholders for the texts
    turns = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
    try:
        rest = str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **style.options))
    except (TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError) as error:  # a template is a program of the checkpoint's
        raise RequestError(f"The chat template of this rig does not take turns of {', '.join(roles)} "
                           f"({first_line(error)[:160]}).") from error
    frame: list[str] = []
    for mark in marks:
        before, kept, rest = rest.partition(mark)
        if not kept:
            raise RequestError("The chat template of this rig leaves a turn out; leave earlier turns out, too.")
        frame.append(before)
    return [*frame, rest]


class TokenTexts(dict[int, Piece]):
    """The text of single tokens, each looked up once: looking up a round's new tokens takes longer than the rest of
    recording it."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer

    def __missing__(self, token: int) -> Piece:
        text = token_piece(self._tokenizer, token)
        piece = self[token] = text if isinstance(text, str) else tuple(text)
        return piece

    def of(self, token_ids: Iterable[int]) -> dict[int, Piece]:
        """The text of each token, or its bytes where a token alone is not whole characters."""
        return {token: self[token] for token in sorted(token_ids)}
