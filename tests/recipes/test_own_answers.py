"""A target's own answers: prompts, writing, storing, reading and training, on a small random Llama."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.checkpoints.loading import load_causal
from engine.records import Request
from engine.serving.rigs import load_rig
from engine.trace import tau
from recipes.batches import Conversation
from recipes.own_answers.decoder import AnswerSampling, BatchDecoder, loop_length, write_answers
from recipes.own_answers.measure import phrase_drafter, scores
from recipes.own_answers.phrases import answer_tokens, export, orders_of
from recipes.own_answers.prompts import HeldOut, draw_seeded, seed_prompt
from recipes.own_answers.shards import AnswerRow, open_shard, read_shard, write_features, write_shard
from tests.engine.helpers import decode
from tests.engine.published import LLAMA, write_target

CPU, END = torch.device("cpu"), 2
HELD_OUT = Path("assets/prompts/people.jsonl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a random Llama of four layers with the demo rig's tokenizer."""
    return write_target(tmp_path_factory.mktemp("rig") / "target", LLAMA, seed=3, vocab_size=1536, rope_scaling=None,
                        num_hidden_layers=4, max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=END,
                        bos_token_id=1)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return load_causal(folder, torch.float32, CPU)


@pytest.fixture(scope="module")
def conversations(model: Any) -> list[Conversation]:
    """Provide prompts of several lengths with greedy answers, some longer than the initial cache."""
    draw = random.Random(1)
    prompts = [tuple(draw.randrange(5, 1500) for _ in range(length)) for length in (3, 40, 11, 60, 7, 25)]
    texts = write_answers(BatchDecoder(model), prompts, 40, END)
    return [Conversation(prompt, text.tokens) for prompt, text in zip(prompts, texts, strict=True)]


@pytest.fixture(scope="module")
def features(model: Any, conversations: list[Conversation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("features")
    write_features(model, conversations, folder / "one")
    return folder


def test_answers_equal_those_of_the_model_itself(model: Any, conversations: list[Conversation]) -> None:
    for conversation in conversations:
        prompt = torch.tensor([conversation.prompt])
        plain = model.generate(prompt, max_new_tokens=40, do_sample=False, attention_mask=torch.ones_like(prompt))
        alike = plain[0, len(conversation.prompt):].tolist()
        assert list(conversation.response) == alike[:len(conversation.response)]
        assert len(conversation.response) == len(alike) or loop_length(alike[:24 * (len(alike) // 24)])


def test_sampling_depends_on_its_seed_and_is_cut(model: Any) -> None:
    decoder, prompts = BatchDecoder(model), [(5, 6, 7)] * 4
    one, same, other = (write_answers(decoder, prompts, 8, END, AnswerSampling(1.0, 0.9, seed)) for seed in (1, 1, 2))
    assert one == same != other
    greedy = write_answers(decoder, prompts, 8, END)
    assert write_answers(decoder, prompts, 8, END, AnswerSampling(1.0, 1e-6)) == greedy


def test_a_shard_is_read_back_unchanged(tmp_path: Path, conversations: list[Conversation]) -> None:
    answers = [AnswerRow(each, number % 2 == 0, 10 + number) for number, each in enumerate(conversations)]
    write_shard(tmp_path / "a.npz", answers)
    assert list(read_shard(tmp_path / "a.npz")) == answers


def test_features_equal_the_targets_own(model: Any, conversations: list[Conversation], features: Path) -> None:
    shard = open_shard(features / "one")
    for conversation, (start, prompt, whole) in zip(conversations, shard.conversations, strict=True):
        assert (prompt, whole) == (len(conversation.prompt), len(conversation))
        tokens = torch.tensor([conversation.prompt + conversation.response])
        with torch.no_grad():
            read = model(tokens)
        logprobs = read.logits[0, prompt - 1:].log_softmax(-1)
        np.testing.assert_allclose(shard.logprobs[start + prompt - 1:start + whole, 0], logprobs.amax(-1), atol=2e-3)
        likeliest = shard.likely[start + prompt - 1:start + whole - 1, 0]
        assert np.mean(likeliest == np.array(conversation.response)) == 1  # greedy answers are the likeliest tokens


def test_scores_of_a_phrase_table_equal_those_of_the_engine(
        folder: Path, features: Path, conversations: list[Conversation], tmp_path: Path) -> None:
    shard = open_shard(features / "one")
    assert answer_tokens([shard]) == sum(len(conversation.response) for conversation in conversations)
    export(orders_of([shard]), tmp_path, 1536, {})
    rig = load_rig(f"{folder}::{tmp_path}", "float32")
    measured = scores(phrase_drafter(tmp_path), shard, shard.conversations, 6, END)
    assert measured.tree > 1.5, "the table was built from these answers"
    for method, length in (("dflash", measured.chain), ("ddtree", measured.tree), ("expand", measured.tree)):
        rounds = [round_ for conversation in conversations for round_ in decode(
            Request(conversation.prompt, method=method, budget=6, max_tokens=len(conversation.response),
                    stop_ids=frozenset({END})), rig.target,
            list(rig.drafters_for(method).values()))]
        assert tau(rounds) == pytest.approx(length, abs=0.01), method


def test_seed_prompts_are_complete_and_depend_on_their_seed() -> None:
    one, same = ([seed_prompt(random.Random(seed)) for seed in range(400)] for _ in range(2))
    assert one == same and len(set(one)) > 350
    assert not [text for text in one if re.search(r"{(topic|other|text|code|letter|a|b|c|name|list|how)}", text)]
    held_out = HeldOut([HELD_OUT])
    assert not [text for text in one if held_out.is_near(text)]


def test_seeded_prompts_continue_conversations(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.npz", [AnswerRow(Conversation((1, 2), (3, 2)), True, 0)])
    drawn = draw_seeded(0, set(), [tmp_path / "a.npz"], lambda answered: [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], ("questions", "code_tasks"))
    lengths = {len(conversation) for conversation in drawn}
    assert lengths == {1, 3} and all(conversation[-1]["role"] == "user" for conversation in drawn)
