"""The target's own answers, as a drafter is trained on them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.checkpoints.loading import load_causal, load_tokenizer
from engine.decoding.outcome import outcome
from engine.recipes.answers import READINGS, TOGETHER, OwnAnswers, answered
from engine.recipes.batches import RowShape, conversation
from engine.recipes.corpus.mixture import DRAFTER_SHARES, training_items
from engine.records import Ask
from engine.serving.live import LiveRig
from engine.serving.rigs import open_rig

RIG = Path("assets/demo/target")
TARGET, TOKENIZER = load_causal(RIG, torch.float32, torch.device("cpu")), load_tokenizer(RIG)


def test_answers_are_what_plain_decoding_writes() -> None:
    items = list(islice(training_items(DRAFTER_SHARES["all"], "own"), 4))
    talks = [conversation(item, TOKENIZER) for item in items]
    assert len({len(talk.prompt) for talk in talks}) > 1, "prompts of one length prove nothing of the padding"
    live = LiveRig(open_rig("demo", "float32"))
    for item, talk, found in zip(items, talks, answered(TARGET, TOKENIZER, talks, 256), strict=True):
        with live.rounds(Ask(item.prompt, method="autoregressive", budget=0, max_tokens=200)) as rounds:
            written = outcome(rounds).token_ids
        assert found is not None and found.prompt == talk.prompt
        assert TOKENIZER.decode(found.response) == TOKENIZER.decode(written) + "<|im_end|>\n"


def test_an_answer_that_does_not_end_in_time_is_left_out() -> None:
    talks = [conversation(item, TOKENIZER) for item in islice(training_items(DRAFTER_SHARES["all"], "own"), 2)]
    assert answered(TARGET, TOKENIZER, talks, max(len(talk.prompt) for talk in talks) + 3) == [None, None]


@pytest.mark.long
def test_a_batch_is_a_function_of_its_step_and_is_read_again_by_others() -> None:
    def batches() -> OwnAnswers:
        return OwnAnswers(TARGET, TOKENIZER, DRAFTER_SHARES["code"], RowShape(1, 256), "t")

    one, other = batches(), batches()
    first, again = one.batch(0), one.batch(TOGETHER)
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert not np.array_equal(first.tokens, one.batch(1).tokens)
    later = TOGETHER * READINGS
    np.testing.assert_array_equal(one.batch(later).tokens, other.batch(later).tokens)
    assert not np.array_equal(first.tokens, one.batch(later).tokens)
    assert first.answer.any()
