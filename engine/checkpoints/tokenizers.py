"""Loads tokenizers from checkpoint folders; no code of the checkpoint's is run. Imports no torch, as ``files.py``."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from engine.checkpoints.files import display_name, first_line, has_tokenizer, require
from engine.checkpoints.text_files import chat_templates
from engine.errors import CancellationError, RigError


def load_tokenizer(folder: Path, vocabulary: int | None = None) -> PreTrainedTokenizerBase:
    """Return the tokenizer in a model's folder; RigError if it cannot be loaded, or if it makes tokens out of text that
    are none of the model's ``vocabulary``."""
    if not has_tokenizer(folder):
        require(folder, "tokenizer.json")
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
