"""Turns a conversation into tokens with the chat template.

The tokens are those of ``apply_chat_template``, unless somebody typed a special token's name: it is marked before the
template sees it, and encoded as text.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import transformers
from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils

from engine.checkpoints.files import first_line
from engine.errors import RequestError
from engine.requests.prompts import ROLES, Turn

THINKING_OPTION = "enable_thinking"  # as chat templates call it
PROBE_TEXT = "20461"  # no filter of a template changes it
NO_TEMPLATE = "The tokenizer has no chat template: prompts go to the model as they are."
NOTHING_SHOWN = "The chat template shows the model nothing of a prompt's text."


@dataclass(frozen=True)
class ChatStyle:
    """Options for rendering the chat template, and a sentence about them. ``parts``: it takes contents as lists of
    parts, as templates of models that also read images do."""

    options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    parts: bool = False


def chat_style(tokenizer: PreTrainedTokenizerBase, thinking: bool = True) -> ChatStyle:
    """Return how this tokenizer's template is rendered. Without ``thinking`` its thinking switch is off: a drafter
    trained without it has a quarter of its tokens accepted in a thinking text, and more than half otherwise."""
    template = template_of(tokenizer)
    if not template:
        return ChatStyle(note=NO_TEMPLATE)
    style = ChatStyle()
    if THINKING_OPTION in template and not thinking:
        style = ChatStyle({THINKING_OPTION: False},
                          "Thinking is off: a drafter of this rig was trained on answers without it.")
    shown = []
    for tried in (style, replace(style, parts=True)):
        with suppress(RequestError):  # it takes no single turn, or none of this form
            shown.append(render_chat(tokenizer, [("user", PROBE_TEXT)], tried))
            if PROBE_TEXT in shown[-1]:
                return tried
    return replace(style, note=f"{style.note} {NOTHING_SHOWN}".strip()) if shown else style


def switched(tokenizer: PreTrainedTokenizerBase, style: ChatStyle, thinking: str) -> ChatStyle:
    """Set the template's thinking switch to on, off, or "auto" (unchanged); RequestError without a switch."""
    if thinking == "auto":
        return style
    if THINKING_OPTION not in template_of(tokenizer):
        raise RequestError("This model's chat template has no thinking switch; leave it at auto.")
    return replace(style, options={**style.options, THINKING_OPTION: thinking == "on"})


def prompt_ids(tokenizer: PreTrainedTokenizerBase, prompt: str, turns: Sequence[Turn] = (),
               style: ChatStyle | None = None) -> tuple[int, ...]:
    """Return the token ids of the prompt as the user's turn after earlier ``turns``. RequestError for an empty prompt,
    and for turns that the template rejects.

    Without a chat template the texts are tokenised as they are, one line each.
    """
    if not prompt.strip():
        raise RequestError("The prompt is empty; write at least one character.")
    unknown = [role for role, _ in turns if role not in ROLES]
    if unknown:
        raise RequestError(f"A turn has the role {unknown[0]!r}; it has to be one of {', '.join(ROLES)}.")
    conversation = [*turns, ("user", prompt)]
    if not template_of(tokenizer):  # the text begins as the tokenizer begins texts; no name in it is a special token
        return tuple(tokenizer.encode("\n".join(text for _, text in conversation), split_special_tokens=True))
    special, style = special_names(tokenizer), style or ChatStyle()
    if not any(special.search(text) for _, text in conversation):
        return tuple(tokenizer.encode(render_chat(tokenizer, conversation, style), add_special_tokens=False))
    if not hasattr(chat_template_utils, "mark_control_tokens"):
        raise RequestError(f"The prompt holds a special token's name, which transformers {transformers.__version__} "
                           "cannot encode as text; leave the name out, or install transformers 5.23 or later.")
    return _encode_marked(tokenizer, render_chat(tokenizer, conversation, style, special))


def render_chat(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], style: ChatStyle,
                special: re.Pattern[str] | None = None) -> str:
    """Render the conversation up to the answer's beginning; RequestError if the template fails. What matches
    ``special`` is marked for ``_encode_marked``."""
    messages: list[dict[str, Any]] = [
        {"role": role, "content": [{"type": "text", "text": text}] if style.parts else text} for role, text in turns]
    try:
        return str(tokenizer.apply_chat_template(
            chat_template_utils.mark_control_tokens(messages, special) if special else messages,
            chat_template=template_of(tokenizer), tokenize=False, add_generation_prompt=True, **style.options))
    except (TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError) as error:  # a template is a program of the checkpoint's
        roles = ", ".join(role for role, _ in turns)
        raise RequestError(f"The chat template of this rig does not take turns of {roles} "
                           f"({first_line(error)[:160]}).") from error


def _encode_marked(tokenizer: PreTrainedTokenizerBase, rendered: str) -> tuple[int, ...]:
    """Return the token ids of a rendered conversation, marked names encoded as text; RequestError if they cannot be."""
    encode = chat_template_utils.encode_marked_chat
    try:
        return tuple(encode(tokenizer, rendered))
    except ValueError:  # the vocabulary makes the special token of its name, too, so the name is encoded in two parts
        before, behind = chat_template_utils.mark_control_tokens("-", re.compile("-")).split("-")
        parted = re.sub(f"{before}(.)(?!{behind})", rf"\1{before}", rendered, flags=re.DOTALL)
    try:
        return tuple(encode(tokenizer, parted))
    except ValueError as error:
        raise RequestError(f"The prompt cannot be read as text ({first_line(error)}); leave that token out.") from error


def special_names(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str]:
    """Return a pattern of the special tokens' names, the longest first; it never matches if there are none."""
    names = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special and token.content}
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)")


def template_of(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the chat template; of several named ones ``default``, or else the first; "" without one."""
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        template = template.get("default") or next(iter(template.values()), "")
    return template if isinstance(template, str) else ""
