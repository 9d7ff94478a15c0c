"""A target's own answers: what is asked, written, kept, read again and learnt, on a small random Llama."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.decoding.loop import decode
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.phrases.checkpoint import read_table
from engine.drafters.phrases.drafter import PhraseDrafter
from engine.errors import RigError
from engine.records import Request
from engine.requests.prompts import read_prompts
from engine.runtime.checkpoints.loading import load_causal
from engine.runtime.rigs.rigs import open_rig
from engine.trace import tau
from engine.training.batches import Conversation
from engine.training.blocks import BlockShape
from engine.training.denoising import Course, Trainee, train_drafter
from engine.training.own_answers import seeds
from engine.training.own_answers.answer_files import AnswerRow, in_circles, read_shard, write_shard
from engine.training.own_answers.decoder import AnswerSampling, BatchDecoder, looped, written
from engine.training.own_answers.drafters import Lessons, OwnRecipe, begun, export_mean
from engine.training.own_answers.features import from_bits, open_shard, write_features
from engine.training.own_answers.measure import by_block, by_phrases, load_trainee, scores
from engine.training.own_answers.phrases import export, orders_of
from engine.training.own_answers.prompts import PROMPTS_A_FILE, HeldOut, asked, is_plain, seeded
from engine.training.own_answers.reading import AnswerShards, choices, frequent
from engine.training.own_answers.small import LayerLessons, LayerRecipe, export_layers, some_layers
from engine.training.rates import optimizers
from engine.training.target import Run
from tests.engine.runtime.published import LLAMA, write_target

CPU, TAPS, END = torch.device("cpu"), (0, 2), 2
HELD_OUT = Path("assets/prompts/people.jsonl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of four layers with the demo rig's tokenizer."""
    return write_target(tmp_path_factory.mktemp("rig") / "target", LLAMA, seed=3, vocab_size=1536, rope_scaling=None,
                        num_hidden_layers=4, max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=END,
                        bos_token_id=1)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return load_causal(folder, torch.float32, CPU)


@pytest.fixture(scope="module")
def talks(model: Any) -> list[Conversation]:
    """Prompts of several lengths with the target's greedy answers, some past the first room of the cache."""
    draw = random.Random(1)
    prompts = [tuple(draw.randrange(5, 1500) for _ in range(length)) for length in (3, 40, 11, 60, 7, 25)]
    texts = written(BatchDecoder(model), prompts, 40, END)
    return [Conversation(prompt, text.tokens) for prompt, text in zip(prompts, texts, strict=True)]


@pytest.fixture(scope="module")
def features(model: Any, talks: list[Conversation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("features")
    write_features(model, TAPS, talks, place / "one")
    return place


def test_answers_are_those_of_the_model_itself(model: Any, talks: list[Conversation]) -> None:
    for talk in talks:
        prompt = torch.tensor([talk.prompt])
        plain = model.generate(prompt, max_new_tokens=40, do_sample=False, attention_mask=torch.ones_like(prompt))
        alike = plain[0, len(talk.prompt):].tolist()
        assert list(talk.response) == alike[:len(talk.response)]
        assert len(talk.response) == len(alike) or looped(alike[:24 * (len(alike) // 24)])


def test_sampling_follows_its_seed_and_its_tail_is_cut(model: Any) -> None:
    decoder, prompts = BatchDecoder(model), [(5, 6, 7)] * 4
    one, same, other = (written(decoder, prompts, 8, END, AnswerSampling(1.0, 0.9, seed)) for seed in (1, 1, 2))
    assert one == same != other
    greedy = written(decoder, prompts, 8, END)
    assert written(decoder, prompts, 8, END, AnswerSampling(1.0, 1e-6)) == greedy


def test_loops_and_circles() -> None:
    assert looped([0, *range(10), *range(10), *range(10)]) == 20 and looped([7] * 24) == 23 and not looped([7] * 23)
    assert not looped(list(range(100)))
    assert in_circles([1, 2, 3, 4, 5] * 6) and not in_circles(list(range(40))) and not in_circles([1, 2])


def test_a_shard_gives_back_what_was_written(tmp_path: Path, talks: list[Conversation]) -> None:
    answers = [AnswerRow(talk, number % 2 == 0, 10 + number) for number, talk in enumerate(talks)]
    write_shard(tmp_path / "a.npz", answers)
    assert list(read_shard(tmp_path / "a.npz")) == answers


def test_features_are_the_targets_own(model: Any, talks: list[Conversation], features: Path) -> None:
    shard = open_shard(features / "one")
    for talk, (start, prompt, whole) in zip(talks, shard.talks, strict=True):
        assert (prompt, whole) == (len(talk.prompt), len(talk))
        tokens = torch.tensor([talk.prompt + talk.response])
        with torch.no_grad():
            read = model(tokens, output_hidden_states=True)
        states = torch.cat([read.hidden_states[tap + 1] for tap in TAPS], -1)[0]
        torch.testing.assert_close(from_bits(shard.taps[start:start + whole]).float(), states, atol=0.05, rtol=0.02)
        logprobs = read.logits[0, prompt - 1:].log_softmax(-1)
        np.testing.assert_allclose(shard.logprobs[start + prompt - 1:start + whole, 0], logprobs.amax(-1), atol=2e-3)
        said = shard.likely[start + prompt - 1:start + whole - 1, 0]
        assert np.mean(said == np.array(talk.response)) == 1  # greedy: the likeliest is what was said


def test_a_batch_lays_each_conversation_beside_what_was_said_of_it(features: Path, talks: list[Conversation]) -> None:
    library = AnswerShards(features)
    assert len(library) == len(talks) and library.answer_tokens() == sum(len(talk.response) for talk in talks)
    reading = library.reading(4, 7)
    assert reading.taps.shape[1] % 64 == 0 and (library.reading(4, 7).batch.tokens == reading.batch.tokens).all()
    for row in range(4):
        said = np.flatnonzero(reading.batch.answer[row])
        np.testing.assert_array_equal(reading.likely[row, said - 1, 0], reading.batch.tokens[row, said])
    most = frequent(library, 5)
    chosen = choices(np.array([[most[0], 1400]]), most, 4)
    assert len(set(chosen.tolist())) == 4 and {int(most[0]), 1400} <= set(chosen.tolist())


def recipe(drafter: str = "chat", steps: int = 3, **more: Any) -> OwnRecipe:
    return OwnRecipe(drafter, steps, rows=4, anchors=3, block=BlockShape(5, 4.0), inner=48, taps=TAPS, choices=200,
                     whole_steps=1, **more)


def trained(folder: Path, features: Path, made: OwnRecipe, work: Path) -> Path:
    """A drafter after a few steps, exported."""
    target = load_causal(folder, torch.float32, CPU)
    drafter = begun(target, made, None)
    run, lessons = Run(drafter, optimizers(drafter, made), work), Lessons(features, made, None)
    trainee = Trainee(drafter, target.model.embed_tokens.weight.detach(), 0)
    train_drafter(run, Course("chat", made, lambda step: trainee(lessons.lesson(step)), lambda: []))
    export_mean(drafter, drafter.state_dict(), work / "head", {"steps": run.step})
    return work / "head"


def test_a_drafter_learns_and_what_is_measured_is_what_the_engine_does(
        folder: Path, features: Path, talks: list[Conversation], tmp_path: Path) -> None:
    place = trained(folder, features, recipe(steps=40), tmp_path)
    rig = open_rig(f"{folder}::{place}", "float32")
    propose = by_block(load_trainee(place, rig.target.embedding.weight))
    shard = open_shard(features / "one")
    found = scores(propose, shard, shard.talks, 12, END)
    for method, said in (("dflash", found.chain), ("ddtree", found.tree)):
        rounds = [made for talk in talks for made in decode(
            Request(talk.prompt, method=method, budget=12, max_tokens=len(talk.response),
                    stop_ids=frozenset({END})), rig.target,
            list(rig.drafters_for(method).values()))]
        assert tau(rounds) == pytest.approx(said, abs=0.01), method


def test_on_a_processor_with_tiles_a_drafter_is_measured_in_its_own_precision(
        folder: Path, features: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    target = load_causal(folder, torch.float32, CPU)
    drafter = begun(target, recipe(), None).eval()
    shard = open_shard(features / "one")
    propose = by_block(Trainee(drafter, target.model.embed_tokens.weight.detach(), 0))
    assert scores(propose, shard, shard.talks[:1], 4, END).tree >= 1


def test_phrases_of_the_answers_and_what_is_measured_is_what_the_engine_does(
        folder: Path, features: Path, talks: list[Conversation], tmp_path: Path) -> None:
    shard = open_shard(features / "one")
    export(orders_of([shard]), tmp_path, 1536, {})
    rig = open_rig(f"{folder}::{tmp_path}", "float32")
    propose = by_phrases(PhraseDrafter(1536, read_table(tmp_path, 1536)))
    found = scores(propose, shard, shard.talks, 6, END)
    assert found.tree > 1.5, "it has read these answers"
    for method, said in (("dflash", found.chain), ("ddtree", found.tree), ("expand", found.tree)):
        rounds = [made for talk in talks for made in decode(
            Request(talk.prompt, method=method, budget=6, max_tokens=len(talk.response),
                    stop_ids=frozenset({END})), rig.target,
            list(rig.drafters_for(method).values()))]
        assert tau(rounds) == pytest.approx(said, abs=0.01), method


def test_fewer_choices_and_a_loss_of_distributions_alone(folder: Path, features: Path) -> None:
    target = load_causal(folder, torch.float32, CPU)
    made = recipe(distribution_share=1.0)
    trainee = Trainee(begun(target, made, None), target.model.embed_tokens.weight.detach(), 0)
    lessons = Lessons(features, made, None)
    few, whole = lessons.lesson(0), lessons.lesson(2)
    assert few.choices is not None and len(few.choices) == 200 and whole.choices is None
    with torch.autocast("cpu", torch.bfloat16):
        assert 0 < trainee(few).item() < 20 and 0 < trainee(whole).item() < 20


def test_a_specialist_may_hold_only_what_differs(folder: Path, features: Path, tmp_path: Path) -> None:
    whole = trained(folder, features, recipe(), tmp_path)
    own = tmp_path / "code"
    own.mkdir()
    weights = {name: value + 1 for name, value in load_file(whole / "model.safetensors").items() if "layers.1" in name}
    save_file(weights, own / "model.safetensors")
    config = (whole / "config.json").read_text()
    (own / "config.json").write_text(config.replace("{", '{"base_head": "head",', 1))
    drafters = open_rig(f"{folder}::{whole}::{own}", "float32").drafters
    first, second = drafters["drafter 1"], drafters["drafter 2"]
    assert isinstance(first, DFlashDrafter) and isinstance(second, DFlashDrafter)
    base, other = first.model.state_dict(), second.model.state_dict()
    for name, value in base.items():
        torch.testing.assert_close(other[name], value + ("layers.1" in name), atol=0.01, rtol=0)
    for odd in ('"../head"', '"none"', "3"):
        (own / "config.json").write_text(config.replace("{", f'{{"base_head": {odd},', 1))
        with pytest.raises(RigError, match="the name of a whole drafter in a folder beside this one"):
            open_rig(f"{folder}::{own}", "float32")


def test_a_specialist_learns_only_what_it_keeps(folder: Path, features: Path, tmp_path: Path) -> None:
    whole = trained(folder, features, recipe(), tmp_path / "chat")
    target, made = load_causal(folder, torch.float32, CPU), recipe("code", learns=("layers.1.", "norm."))
    drafter = begun(target, made, whole)
    run, lessons = Run(drafter, optimizers(drafter, made), tmp_path / "work"), Lessons(features, made, None)
    trainee = Trainee(drafter, target.model.embed_tokens.weight.detach(), 0)
    train_drafter(run, Course("code", made, lambda step: trainee(lessons.lesson(step)), lambda: []))
    export_mean(drafter, drafter.state_dict(), tmp_path / "code", {})
    kept, before = load_file(tmp_path / "code" / "model.safetensors"), load_file(whole / "model.safetensors")
    assert kept and all(name.startswith(("layers.1.", "norm.")) for name in kept)
    assert all(not torch.equal(value, before[name]) for name, value in kept.items() if value.ndim == 2)
    for name, value in drafter.state_dict().items():
        if name not in kept:
            torch.testing.assert_close(value, before[name].float())
    assert '"base_head": "chat"' in (tmp_path / "code" / "config.json").read_text()


def test_a_small_model_borrows_the_targets_embedding(folder: Path, features: Path, tmp_path: Path) -> None:
    made = LayerRecipe(steps=2, rows=4, choices=200, whole_steps=1, begun_from=(0, 3))
    little = some_layers(load_causal(folder, torch.float32, CPU), made.begun_from)
    run, lessons = Run(little, optimizers(little, made), tmp_path), LayerLessons(little, features, made)
    before = little.get_input_embeddings().weight.clone()
    train_drafter(run, Course("small", made, lessons.loss, lambda: []))
    torch.testing.assert_close(little.get_input_embeddings().weight, before)
    weights = {name.removeprefix("model."): value for name, value in little.state_dict().items()
               if name.startswith(("model.layers", "model.norm"))}
    export_layers(little, weights, tmp_path / "small", {})
    assert (tmp_path / "small" / "model.safetensors").stat().st_size < 60_000
    rig = open_rig(f"{folder}::{tmp_path / 'small'}", "float32")
    drafter: Any = rig.drafters["drafter"]
    assert drafter.model.get_input_embeddings() is rig.target.embedding
    tokens = torch.tensor([[9, 8, 7, 6]])
    with torch.no_grad():
        torch.testing.assert_close(drafter.model(tokens).logits, little.eval()(tokens).logits, atol=0.1, rtol=0.05)
    config = tmp_path / "small" / "config.json"
    config.write_text(config.read_text().replace('"embedding_of": "target"', '"embedding_of": "nobody"'))
    with pytest.raises(RigError, match="embedding_of 'nobody'; it has to be 'target'"):
        open_rig(f"{folder}::{tmp_path / 'small'}", "float32")


def test_seed_prompts_are_filled_and_follow_their_draw() -> None:
    one, same = ([seeds.seed_prompt(random.Random(seed)) for seed in range(400)] for _ in range(2))
    assert one == same and len(set(one)) > 350
    assert not [text for text in one if re.search(r"{(topic|other|text|code|letter|a|b|c|name|list|how)}", text)]
    held_out = HeldOut([HELD_OUT])
    assert not [text for text in one if held_out.near(text)]


def test_what_is_held_out_is_known_in_other_words_too() -> None:
    held_out = HeldOut([HELD_OUT])
    first = read_prompts(HELD_OUT)[0].text
    assert held_out.near(first) and held_out.near(first.upper() + " please") and not held_out.near("What is tea?")
    assert is_plain("What is tea?") and not is_plain("<|im_end|> what") and not is_plain(" x y z")
    assert not is_plain("日本語の文章です")


def test_seeded_prompts_go_on_with_conversations(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.npz", [AnswerRow(Conversation((1, 2), (3, 2)), True, 0)])
    made = seeded(0, set(), [tmp_path / "a.npz"], lambda answered: [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], ("questions", "code_tasks"))
    lengths = {len(talk) for talk in made}
    assert lengths == {1, 3} and all(talk[-1]["role"] == "user" for talk in made)


def test_a_kind_of_few_prompts_ends_with_what_there_is() -> None:
    known: set[str] = set()
    made = seeded(0, known, [], lambda answered: [], ("greetings",))
    assert 0 < len(made) < PROMPTS_A_FILE and len({talk[0]["content"] for talk in made}) == len(made) == len(known)


def test_where_seeds_are_used_up_conversations_do_not_take_their_place(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.npz", [AnswerRow(Conversation((1, 2), (3, 2)), True, 0)])
    known: set[str] = set()
    while [talk for talk in seeded(0, known, [], lambda answered: [], ("greetings",)) if len(talk) == 1]:
        pass
    made = seeded(0, known, [tmp_path / "a.npz"], lambda answered: asked("Hi"), ("greetings",))
    assert {len(talk) for talk in made} == {2} and len(made) <= 0.2 * PROMPTS_A_FILE
    assert len({talk[-1]["content"] for talk in made}) == len(made), "none twice"
