"""The demo rig's tokenizer: byte-level BPE, one token a digit, ChatML markers and a mask token.

    python -m recipes.tokenizer --out assets/demo/target
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from recipes.corpus.mixture import TARGET_SHARES, training_items

VOCABULARY = 1536
END_OF_TEXT, TURN_START, TURN_END, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"
SPECIAL_TOKENS = [END_OF_TEXT, TURN_START, TURN_END, MASK]
# Words with their leading space, single digits, runs of punctuation, line breaks, indentation.
WORDS = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\n+ *|\s+(?!\S)|\s+"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def train_tokenizer(items: int, seed: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer trained on ``items`` corpus items."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL_TOKENS, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(_texts(items, seed), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=TURN_END, pad_token=END_OF_TEXT, mask_token=MASK,
        additional_special_tokens=[TURN_START], chat_template=CHAT_TEMPLATE,
        model_max_length=1024, clean_up_tokenization_spaces=False)


def _texts(items: int, seed: str) -> Iterator[str]:
    for item in islice(training_items(TARGET_SHARES, seed), items):
        yield "user\n" + item.prompt
        yield "assistant\n" + item.response


def main() -> None:
    """Train the tokenizer and save it beside the target's weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("assets/demo/target"))
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--seed", default="tokenizer")
    args = parser.parse_args()
    train_tokenizer(args.items, args.seed).save_pretrained(args.out)


if __name__ == "__main__":
    main()
