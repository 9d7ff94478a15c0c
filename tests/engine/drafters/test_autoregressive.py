"""A causal language model as a drafter, against plain passes of the same model without cache or mask."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from engine.decoding.methods import METHODS
from engine.decoding.plan import Drafter
from engine.drafters.autoregressive.drafter import AutoregressiveDrafter
from engine.drafters.beam import Reach
from engine.records import Lattice, Request, Sampling
from engine.trace import encode_record
from engine.trace.reading import decode_round
from tests.engine.material import plain_text, run, text, text_of
from tests.engine.small import VOCABULARY, small_config, small_drafter, small_target

PROMPT = tuple(range(5, 25))


def small_model(seed: int = 7, layers: int = 1) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(small_config(layers)).eval()
    for value in model.parameters():
        if value.ndim == 2:
            value.data.normal_(0, 0.15)
    return model


def path_drafter(depth: int = 4, width: int = 5) -> AutoregressiveDrafter:
    return AutoregressiveDrafter(small_model(), VOCABULARY, Reach(depth, width))


def paths(lattice: Lattice) -> list[tuple[tuple[int, ...], int]]:
    """Every path that leads to a row of probability above 0, with the row."""
    found: list[tuple[tuple[int, ...], int]] = []
    level: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for depth in range(lattice.depth):
        found += level
        level = [((*tokens, int(lattice.tokens[depth, row, rank])), int(lattice.follow[depth, row, rank]))
                 for tokens, row in level for rank in range(lattice.tokens.shape[2])
                 if depth + 1 < lattice.depth and np.isfinite(lattice.logprobs[depth + 1, lattice.follow[
                     depth, row, rank], 0])]
    return found


@pytest.mark.parametrize("steps", [[9], [4, 5], [1, 1, 1, 6]])
def test_every_row_is_what_the_model_says_behind_that_path(steps: list[int]) -> None:
    drafter, plain = path_drafter(), small_model()
    text = np.random.default_rng(3).integers(0, VOCABULARY, sum(steps)).astype(np.int32)
    drafter.begin(64)
    done = 0
    for step in steps:
        drafter.observe(text[done:done + step], torch.empty(0))
        drafter.draft(11, 64)  # what a round leaves behind must not reach the next
        done += step
    lattice = drafter.draft(7, 64)
    assert lattice.tokens.shape == (4, 6, 5) and lattice.tokens.dtype == np.int32
    found = paths(lattice)
    assert len(found) == 1 + 3 * 5
    for tokens, row in found:
        with torch.no_grad():
            said = plain(torch.tensor([[*text, 7, *tokens]])).logits[0, -1].log_softmax(-1)
        top = said.topk(5)
        np.testing.assert_array_equal(lattice.tokens[len(tokens), row], top.indices.numpy())
        np.testing.assert_allclose(lattice.logprobs[len(tokens), row], top.values.numpy(), atol=1e-5)


def test_the_best_nodes_of_each_depth_are_the_ones_that_go_on() -> None:
    drafter = path_drafter(2, 3)
    drafter.begin(64)
    drafter.observe(np.asarray(PROMPT, np.int32), torch.empty(0))
    lattice = drafter.draft(7, 64)
    assert sorted(tokens for tokens, _ in paths(lattice)) == sorted([(), *((token,) for token in lattice.tokens[0, 0])])
    deeper = path_drafter(3, 3)
    deeper.begin(64)
    deeper.observe(np.asarray(PROMPT, np.int32), torch.empty(0))
    lattice = deeper.draft(7, 64)
    totals = lattice.logprobs[0, 0][:, None] + lattice.logprobs[1, lattice.follow[0, 0]]
    going_on = totals[lattice.follow[1, lattice.follow[0, 0]] < 3]
    assert len(going_on) == 3 and going_on.min() >= np.sort(totals.ravel())[-3]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 0, 0.95, 3)])
@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.drafter_count == 1 and row.lossless])
def test_every_method_with_this_drafter_writes_the_autoregressive_text(method: str, sampling: Sampling) -> None:
    target, drafter = small_target(), path_drafter()
    request = Request(PROMPT, method=method, max_tokens=30, sampling=sampling)
    for budget in (0, 1, 7, 33):
        written = text_of(replace(request, budget=budget), target, [drafter])
        if METHODS[method].follows_text or sampling.temperature == 0:
            assert written == plain_text(request, target)


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.drafter_count == 2])
def test_drafters_of_two_kinds_serve_together(method: str) -> None:
    target, request = small_target(), Request(PROMPT, method=method, max_tokens=30)
    wanted = plain_text(request, target)
    kinds: list[Drafter] = [path_drafter(), small_drafter(target)]
    for drafters in (kinds, kinds[::-1]):
        for budget in (1, 8, 33):
            assert text_of(replace(request, budget=budget), target, drafters) == wanted


def test_a_drafter_that_is_the_target_gets_whole_chains_accepted() -> None:
    target = small_target()
    twin = AutoregressiveDrafter(copy.deepcopy(target.model), VOCABULARY, Reach(4, 1))
    rounds = run(Request(PROMPT, method="expand", budget=20, max_tokens=30), target, [twin])
    assert {len(round_.committed) for round_ in rounds[:-1]} == {5}


def test_beyond_its_own_context_it_proposes_nothing_and_the_text_goes_on() -> None:
    target, model = small_target(), small_model()
    model.config.max_position_embeddings = 32
    drafter = AutoregressiveDrafter(model, VOCABULARY, Reach(4, 5))
    request = Request(PROMPT, method="expand", budget=16, max_tokens=60)
    rounds = run(request, target, [drafter])
    assert text(rounds) == plain_text(request, target)
    assert rounds[0].drafts[0].depth == 4 and rounds[-1].drafts[0].depth == 0
    assert rounds[-1].start > 32
    for round_ in rounds:
        decode_round(encode_record(round_))


def test_release_frees_the_cache() -> None:
    drafter = path_drafter()
    drafter.begin(16)
    assert drafter._cache.slots.numel()
    drafter.release()
    assert not drafter._cache.slots.numel()
