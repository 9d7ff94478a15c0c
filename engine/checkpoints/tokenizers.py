"""Loads tokenizers from checkpoint folders, and reads chat templates and the tokens that end a text. No code of the
checkpoint's is run. Imports no torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from engine.checkpoints.files import display_name, first_line, has_tokenizer, read_config, read_object, require_file
from engine.errors import CancellationError, RigError
from engine.records import MAX_INT32

DEFAULT_TEMPLATE = "default"
PROCESSOR_FILES = ("chat_template.json", "processor_config.json")  # a template may lie in these, and not in tokenizer's
GENERATION = "generation_config.json"
STOP = "eos_token_id"


def load_tokenizer(folder: Path, vocabulary: int | None = None) -> PreTrainedTokenizerBase:
    """Return the tokenizer in a model's folder; RigError if it cannot be loaded, or makes tokens beyond the model's
    ``vocabulary``."""
    if not has_tokenizer(folder):
        require_file(folder, "tokenizer.json")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        tokenizer.decode(tokenizer.encode("A text."))  # which some values are first read by
        special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
        outside = {number for number in tokenizer.get_vocab().values()
                  if vocabulary is not None and number >= vocabulary}
    except BaseException as error:  # a damaged file brings about anything, and the library's panics are no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | CancellationError):
            raise
        raise RigError(f"The tokenizer in {display_name(folder)} cannot be loaded ({first_line(error)}); fetch it "
                       "again.") from error
    if left := outside - special:  # some models have no row for images' tokens, which no text is turned into
        raise RigError(f"The tokenizer in {display_name(folder)} has the token {min(left)}, and the model a vocabulary "
                       f"of {vocabulary}; fetch it again.")
    tokenizer.chat_template = chat_templates(folder, tokenizer.chat_template)
    return tokenizer


def chat_templates(folder: Path, own: Any) -> str | dict[str, str] | None:
    """Return the chat template, or templates by name: the tokenizer's ``own``, and a processor's if it has no default.
    RigError if one is no text."""
    templates = _named_templates(folder, "the tokenizer's chat_template", own)
    for file in PROCESSOR_FILES:
        if DEFAULT_TEMPLATE not in templates and (folder / file).is_file():
            templates |= _named_templates(folder, file, read_object(folder / file).get("chat_template"))
    return templates.get(DEFAULT_TEMPLATE) if set(templates) <= {DEFAULT_TEMPLATE} else templates


def _named_templates(folder: Path, where: str, value: Any) -> dict[str, str]:
    """Return templates by name, from any of the forms in which a file may hold them."""
    pairs: list[tuple[Any, Any]]
    if isinstance(value, list):
        pairs = [(one.get("name"), one.get("template")) if isinstance(one, dict) else (None, one) for one in value]
    else:
        pairs = list(value.items()) if isinstance(value, dict) else [(DEFAULT_TEMPLATE, value)] * (value is not None)
    for name, template in pairs:
        if not isinstance(name, str) or not isinstance(template, str):
            raise RigError(f"{where} in {display_name(folder)} holds {template!r:.60} as the template {name!r:.60}; it "
                           "has to be text, or a list of names and texts.")
    return dict(pairs)


class StopTokens(NamedTuple):
    """The tokens that end a text, and a sentence about them if files name different ones."""

    ids: frozenset[int] = frozenset()
    note: str = ""


def stop_tokens(folder: Path, tokenizer: PreTrainedTokenizerBase, more: Mapping[str, Sequence[object]]) -> StopTokens:
    """Return every token that ends a text by the model's files or by ``more``; RigError if one is no token."""
    config = read_config(folder)
    generation = read_object(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    text = config.get("text_config")
    inner = text.get(STOP) if isinstance(text, dict) else None
    values = {GENERATION: generation.get(STOP), "config.json": inner if config.get(STOP) is None else config[STOP],
              "the tokenizer": tokenizer.eos_token_id, **{file: list(ids) for file, ids in more.items()}}
    ids_by_file = {file: ids for file, value in values.items() if (ids := _tokens(folder, file, value))}
    stop_ids = frozenset[int]().union(*ids_by_file.values())
    if not ids_by_file or stop_ids == next(iter(ids_by_file.values())):
        return StopTokens(stop_ids)
    files = ", ".join(f"{file}: " + " ".join(
        str(tokenizer.convert_ids_to_tokens(token) if token < len(tokenizer) else token) for token in sorted(ids))
        for file, ids in ids_by_file.items())
    return StopTokens(stop_ids, f"Files name different tokens that end a text, and each of them ends it ({files}).")


def _tokens(folder: Path, file: str, value: Any) -> frozenset[int]:
    ids = value if isinstance(value, list) else [] if value is None else [value]
    for token in ids:
        if type(token) is not int or not 0 <= token <= MAX_INT32:
            raise RigError(f"{file} in {display_name(folder)} has {STOP} {value!r:.60}; it has to be a token's number, "
                           "or a list of numbers.")
    return frozenset(ids)
