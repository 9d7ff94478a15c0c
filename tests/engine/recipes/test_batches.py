"""Packing, blocks and the mask that training sees."""

from __future__ import annotations

import numpy as np
import torch
from transformers import AutoTokenizer

from engine.recipes.batches import RowShape, conversation, make_batch
from engine.recipes.blocks import BlockShape, block_mask, lay_blocks
from engine.recipes.corpus.items import Item, is_test
from engine.recipes.corpus.mixture import MAKERS, TARGET_SHARES, training_items, unseen_items

SHAPE = BlockShape()
SLOTS = SHAPE.slots
TOKENIZER = AutoTokenizer.from_pretrained("assets/demo/target")


def test_training_never_draws_a_test_prompt() -> None:
    items = training_items(TARGET_SHARES, "check")
    drawn = [next(items) for _ in range(2000)]
    assert not any(is_test(item) for item in drawn)
    kept = {item.prompt for domain in MAKERS for item in unseen_items(domain, 30)}
    assert len(kept) == 30 * len(MAKERS) and not kept & {item.prompt for item in drawn}


def test_a_batch_is_a_function_of_its_seed_and_holds_whole_items() -> None:
    shape = RowShape(4, 256)
    one, same, other = (make_batch(TARGET_SHARES, TOKENIZER, shape, seed) for seed in ("a", "a", "b"))
    np.testing.assert_array_equal(one.tokens, same.tokens)
    assert not np.array_equal(one.tokens, other.tokens)
    starts = one.tokens == TOKENIZER.convert_tokens_to_ids("<|im_start|>")
    ends = one.tokens == TOKENIZER.eos_token_id
    np.testing.assert_array_equal(starts.sum(-1), ends.sum(-1))
    assert (one.weights[one.answer] == 1).all() and one.answer.mean() > 0.4


def test_the_answer_is_the_response_and_its_end() -> None:
    talk = conversation(Item("math", "2 + 2?", "Answer: 4"), TOKENIZER)
    assert TOKENIZER.decode(talk.response) == "Answer: 4<|im_end|>\n"
    assert TOKENIZER.decode(talk.prompt).endswith("<|im_start|>assistant\n")


def test_blocks_are_labelled_with_what_follows_and_stop_at_the_end_of_the_answer() -> None:
    batch = make_batch(TARGET_SHARES, TOKENIZER, RowShape(3, 256), "blocks")
    blocks = lay_blocks(batch, 5, 0, SHAPE)
    for row in range(3):
        for anchor, labels, weights in zip(blocks.anchors[row], blocks.labels[row], blocks.weights[row], strict=True):
            assert batch.answer[row, anchor]
            for slot in range(1, SLOTS):
                inside = anchor + slot < 256 and batch.answer[row, anchor:anchor + slot + 1].all()
                assert (weights[slot - 1] > 0) == inside
                if inside:
                    assert labels[slot - 1] == batch.tokens[row, anchor + slot]


def test_a_block_sees_the_features_before_its_anchor_and_itself() -> None:
    mask = block_mask(torch.tensor([[3, 0]]), 5, SLOTS)[0, 0]
    assert mask.shape == (2 * SLOTS, 5 + 2 * SLOTS)
    assert mask[0, :5].tolist() == [True, True, True, False, False]
    assert not mask[SLOTS, :5].any()
    own = mask[:, 5:]
    assert own[:SLOTS, :SLOTS].all() and not own[:SLOTS, SLOTS:].any() and own[SLOTS:, SLOTS:].all()
