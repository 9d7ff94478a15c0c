"""Build a small tokenizer of each kind; kinds differ in how tokens become text."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tests.engine.published import TOKENIZER

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
SPECIAL = ("<unk>", "<|im_start|>", "<|im_end|>")
TRAINING: Mapping[str, Any] = {"special_tokens": list(SPECIAL), "show_progress": False}
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
LINES = (
    "one two three four five six seven eight nine ten",
    "The boxes hold 9 books each; the rest don't fit, it's full.",
    "user assistant system think user assistant",
    "a  few   blanks, and\nlines\n\n  indented",
    "naïve café τ=3, déjà vu")


def _with_bytes(backend: Tokenizer) -> Tokenizer:
    """Return the tokenizer with a token for each byte; these are not added tokens."""
    values = json.loads(backend.to_str())
    vocabulary = values["model"]["vocab"]
    vocabulary |= {name: number for number, name in enumerate(BYTES, len(vocabulary))}
    return Tokenizer.from_str(json.dumps(values))


def demo_sentencepiece() -> PreTrainedTokenizerBase:
    """Return the demo rig's vocabulary as Llama 2's tokenizer: a space before each text, and byte fallback."""
    values = json.loads((TOKENIZER / "tokenizer.json").read_text(encoding="utf8").replace("Ġ", "▁"))
    values["model"] |= {"byte_fallback": True}
    values |= {
        "pre_tokenizer": None,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    return PreTrainedTokenizerFast(tokenizer_object=_with_bytes(Tokenizer.from_str(json.dumps(values))),
                                   eos_token="<|im_end|>", chat_template=CHATML)


def trained(model: models.Model, trainer: trainers.Trainer, bytes_too: bool = False, **parts: Any) -> (
        PreTrainedTokenizerBase):
    """Return a tokenizer of this model, trained on the lines; with ``bytes_too`` it has a token for each byte."""
    backend = Tokenizer(model)
    for name, part in parts.items():
        setattr(backend, name, part)
    backend.train_from_iterator(LINES * 20, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=_with_bytes(backend) if bytes_too else backend, unk_token="<unk>", eos_token="<|im_end|>",
        chat_template=CHATML, additional_special_tokens=["<|im_start|>"])


def bpe(decoder: Any, **parts: Any) -> PreTrainedTokenizerBase:
    """Return BPE with byte fallback."""
    trainer = trainers.BpeTrainer(vocab_size=400, **TRAINING)
    return trained(models.BPE(unk_token="<unk>", byte_fallback=True), trainer, True, decoder=decoder, **parts)


def metaspace(scheme: str) -> PreTrainedTokenizerBase:
    """Return BPE over words that begin with ▁: by ``scheme`` also the first word, or no word."""
    return bpe(decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme)]),
               pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme=scheme))


def gemma() -> PreTrainedTokenizerBase:
    """Return Gemma's kind: spaces become ▁, and nothing comes before the first word."""
    return bpe(decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
               normalizer=normalizers.Replace(" ", "▁"))


def unigram() -> PreTrainedTokenizerBase:
    """Return Unigram pieces, as in XGLM and many Japanese models."""
    trainer = trainers.UnigramTrainer(vocab_size=120, unk_token="<unk>", **TRAINING)
    return trained(models.Unigram(), trainer, normalizer=normalizers.NFKC(),
                   pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace())


def wordpiece() -> PreTrainedTokenizerBase:
    """Return words and their ## continuations, as in BERT; spaces are not kept."""
    trainer = trainers.WordPieceTrainer(vocab_size=200, **TRAINING)
    return trained(models.WordPiece(unk_token="<unk>"), trainer, normalizer=normalizers.BertNormalizer(),
                   pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece())


def word_ends() -> PreTrainedTokenizerBase:
    """Return BPE whose tokens mark the end of a word, as in GPT-1: the next token decides about the space."""
    trainer = trainers.BpeTrainer(vocab_size=200, end_of_word_suffix="</w>", **TRAINING)
    return trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainer,
                   pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.BPEDecoder())


def added_words() -> PreTrainedTokenizerBase:
    """Return the SentencePiece kind with added tokens, one of which removes the spaces beside it."""
    tokenizer = demo_sentencepiece()
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("</think>", special=False)])
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken("<sep>", lstrip=True, rstrip=True)]})
    return tokenizer


KINDS: Mapping[str, Callable[[], PreTrainedTokenizerBase]] = {
    "byte-level": partial(PreTrainedTokenizerFast.from_pretrained, TOKENIZER), "sentencepiece": demo_sentencepiece,
    "metaspace first": partial(metaspace, "first"), "metaspace always": partial(metaspace, "always"),
    "metaspace never": partial(metaspace, "never"), "gemma": gemma, "unigram": unigram, "wordpiece": wordpiece,
    "word ends": word_ends, "added words": added_words}


@lru_cache(maxsize=len(KINDS))
def kind(name: str) -> PreTrainedTokenizerBase:
    """Return the cached tokenizer of this kind; a test that changes one builds its own."""
    return KINDS[name]()
