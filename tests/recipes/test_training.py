"""Training: packing and blocks, the loss, a resumed run, the target's own answers, and a step of a drafter whose
checkpoint loads; the shipped weights come from the recipes."""

import json
import math
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import Qwen3ForCausalLM

from engine.checkpoints.files import count_parameters
from engine.checkpoints.loading import load_causal
from engine.checkpoints.tokenizers import load_tokenizer
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.records import PromptRequest
from engine.serving.rigs import load_rig
from engine.trace import committed_ids
from recipes.answers import answer_greedily
from recipes.batches import BlockShape, RowShape, block_mask, lay_blocks, make_batch, tokenise_item
from recipes.corpus.items import is_test
from recipes.corpus.mixture import DRAFTER_SHARES, MAKERS, TARGET_SHARES, training_items, unseen_items
from recipes.drafter import LAYOUTS, DrafterRecipe, Teacher, drafter_config, export_drafter, guess_loss, losses
from recipes.target import SMALL, Recipe, small_config
from recipes.training import Run, optimizers, train

DEMO = Path("assets/demo")
TARGET, TOKENIZER = load_causal(DEMO / "target", torch.float32, torch.device("cpu")), load_tokenizer(DEMO / "target")
SHAPE = BlockShape()
SLOTS = SHAPE.slots


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_drafter_learns_and_its_export_loads(tmp_path: Path, layout: str) -> None:
    recipe = DrafterRecipe(drafter="math", tokens=512, tokens_per_step=512, anchors=3, layout=layout)
    config = drafter_config(TARGET.config, TOKENIZER.mask_token_id, layout)
    config.num_hidden_layers, config.layer_types = 1, config.layer_types[:1]
    model = DFlashModel(config)
    before = model.fc.weight.detach().clone()
    run = Run(model, optimizers(model, recipe), tmp_path / "work")
    loss = train(run, recipe, losses(model, recipe, Teacher(TARGET), TOKENIZER), lambda: optimizers(model, recipe))
    assert run.step == recipe.steps == 1 and math.isfinite(loss)
    assert not torch.equal(before, model.fc.weight) and run.file.exists()
    export_drafter(run, recipe, tmp_path / "head", loss)
    again = load_rig(f"assets/demo/target::{tmp_path / 'head'}", "float32").drafters["drafter"]
    assert isinstance(again, DFlashDrafter)
    torch.testing.assert_close(again.model.fc.weight, model.fc.weight.to(torch.bfloat16).float())
    assert json.loads((tmp_path / "head" / "training.json").read_text())["blocks_seen"] == 6


def test_the_shipped_model_comes_from_the_recipe() -> None:
    config = small_config(TOKENIZER)
    shipped = json.loads((DEMO / "small" / "config.json").read_text())
    assert {name: shipped[name] for name in ("hidden_size", "num_hidden_layers", "vocab_size", "head_dim")} == {
        "hidden_size": config.hidden_size, "num_hidden_layers": 2, "vocab_size": 1536, "head_dim": config.head_dim}
    facts = json.loads((DEMO / "small" / "training.json").read_text())
    assert facts["parameters"] == Qwen3ForCausalLM(config).num_parameters() == count_parameters(DEMO / "small") < 1e6
    assert facts["tokens_seen"] == SMALL.steps * SMALL.tokens_per_step <= 3e6


def test_loss_and_gradient_equal_torchs() -> None:
    torch.manual_seed(0)
    states, embedding = torch.randn(6, 8, requires_grad=True), torch.randn(20, 8)
    labels, weights = np.array([[3, 5, 19], [0, 7, 3]]), np.array([[1, 0.5, 2], [0, 1, 0.25]], np.float32)
    loss = guess_loss(states @ embedding.T, labels, weights)
    loss.backward()
    assert states.grad is not None
    gradient, states.grad = states.grad.clone(), None
    losses = cross_entropy(states @ embedding.T, torch.from_numpy(labels).flatten(), reduction="none")
    plain = (losses * torch.from_numpy(weights).flatten()).sum() / weights.sum()
    plain.backward()
    torch.testing.assert_close(loss, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradient, states.grad, atol=1e-5, rtol=1e-4)


def make_run(folder: Path) -> Run[nn.Sequential]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.LayerNorm(8))
    return Run(model, optimizers(model, Recipe()), folder)


def learn(run: Run[nn.Sequential], count: int) -> None:
    recipe = Recipe(tokens=6144 * 20)
    for _ in range(count):
        torch.manual_seed(run.step)
        run.learn(run.model(torch.randn(4, 8)).pow(2).sum(), recipe.rate_at(run.step))


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, first = make_run(tmp_path / "whole"), make_run(tmp_path / "parts")
    learn(whole, 8)
    learn(first, 5)
    first.save()
    second = make_run(tmp_path / "parts")
    second.resume()
    assert second.step == 5
    learn(second, 3)
    for one, other in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_learning_rate_warms_up_holds_and_decays_twice() -> None:
    recipe = Recipe(tokens=6144 * 1000, finish_tokens=6144 * 300)
    rates = [recipe.rate_at(step) for step in range(recipe.steps)]
    first, finish = rates[:1000], rates[1000:]
    assert first[0] < 0.05 and max(first) == 1 and 0 < first[-1] < 0.01
    assert first[recipe.warmup_steps:500] == [1.0] * (500 - recipe.warmup_steps)
    assert max(finish) == recipe.finish_rate and finish[0] < 0.05 and 0 < finish[-1] < 0.01


def test_training_never_draws_a_test_prompt() -> None:
    items = training_items(TARGET_SHARES, "check")
    drawn = [next(items) for _ in range(2000)]
    assert not any(is_test(item) for item in drawn)
    kept = {item.prompt for domain in MAKERS for item in unseen_items(domain, 30)}
    assert len(kept) == 30 * len(MAKERS) and not kept & {item.prompt for item in drawn}


def test_a_batch_depends_on_its_seed_and_holds_complete_items() -> None:
    shape = RowShape(4, 256)
    one, same, other = (make_batch(TARGET_SHARES, TOKENIZER, shape, seed) for seed in ("a", "a", "b"))
    np.testing.assert_array_equal(one.tokens, same.tokens)
    assert not np.array_equal(one.tokens, other.tokens)
    starts = one.tokens == TOKENIZER.convert_tokens_to_ids("<|im_start|>")
    ends = one.tokens == TOKENIZER.eos_token_id
    np.testing.assert_array_equal(starts.sum(-1), ends.sum(-1))
    assert (one.weights[one.answer] == 1).all() and one.answer.mean() > 0.4


def test_blocks_are_labelled_with_the_next_tokens_up_to_the_answers_end() -> None:
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
    block = mask[:, 5:]
    assert block[:SLOTS, :SLOTS].all() and not block[:SLOTS, SLOTS:].any() and block[SLOTS:, SLOTS:].all()


def test_answers_equal_plain_decoding() -> None:
    items = list(islice(training_items(DRAFTER_SHARES["all"], "own"), 2))
    conversations = [tokenise_item(item, TOKENIZER) for item in items]
    lengths = {len(conversation.prompt) for conversation in conversations}
    assert len(lengths) > 1, "prompts of one length would not test the padding"
    rig = load_rig("demo", "float32")
    answers = answer_greedily(TARGET, TOKENIZER, conversations, 256)
    for item, conversation, answered in zip(items, conversations, answers, strict=True):
        ask = PromptRequest(item.prompt, method="autoregressive", budget=0, max_tokens=200)
        with rig.interleaved([ask]) as (rounds,):
            written = committed_ids(rounds)
        assert answered is not None and answered.prompt == conversation.prompt
        assert TOKENIZER.decode(answered.response) == TOKENIZER.decode(written) + "<|im_end|>\n"
