"""A causal language model as a drafter, against plain passes of the same model without cache or tree mask."""

import copy
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from engine.decoding.protocols import Drafter
from engine.drafters.autoregressive import AutoregressiveDrafter
from engine.drafters.beam import BeamShape
from engine.records import Lattice, Request
from engine.trace import encode_record
from engine.trace.reading import decode_round
from tests.engine.helpers import plain_text, run, text
from tests.engine.small import VOCABULARY, small_config, small_target

PROMPT = tuple(range(5, 25))


def small_model(seed: int = 7, layers: int = 1) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(small_config(layers)).eval()
    for value in model.parameters():
        if value.ndim == 2:
            value.data.normal_(0, 0.15)
    return model


def path_drafter(depth: int = 4, width: int = 5) -> AutoregressiveDrafter:
    return AutoregressiveDrafter(small_model(), VOCABULARY, BeamShape(depth, width))


def paths(lattice: Lattice) -> list[tuple[tuple[int, ...], int]]:
    """Return every path to a row of probability above 0, with the row's index."""
    leading: list[tuple[tuple[int, ...], int]] = []
    level: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for depth in range(lattice.depth):
        leading += level
        level = [((*tokens, int(lattice.tokens[depth, row, rank])), int(lattice.follow[depth, row, rank]))
                 for tokens, row in level for rank in range(lattice.tokens.shape[2])
                 if depth + 1 < lattice.depth and np.isfinite(lattice.logprobs[depth + 1, lattice.follow[
                     depth, row, rank], 0])]
    return leading


def read(drafter: Drafter, text: Sequence[int], steps: Sequence[int], features: torch.Tensor,
         width: int = 64) -> Lattice:
    """Return the draft after a text observed in these steps; earlier drafts must not affect it."""
    drafter.begin(64)
    for end, step in zip(np.cumsum(steps).tolist(), steps, strict=True):
        drafter.observe(np.asarray(text[end - step:end], np.int32), features[end - step:end])
        drafter.draft(11, 64)
    return drafter.draft(7, width)


def assert_rows_follow(lattice: Lattice, after: Callable[[tuple[int, ...]], torch.Tensor], max_length: int = 3) -> None:
    """Assert that each row holds the likeliest tokens by ``after(path)``, a path's log probabilities."""
    compared = [(path, row) for path, row in paths(lattice) if len(path) <= max_length]
    assert {len(path) for path, _ in compared} == set(range(max_length + 1))
    for path, row in compared:
        with torch.no_grad():
            wanted = after(path)
        cells = lattice.tokens[len(path), row], lattice.logprobs[len(path), row]
        np.testing.assert_allclose(cells[1], wanted.topk(len(cells[1])).values.numpy(), atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(cells[1], wanted[torch.from_numpy(cells[0]).long()].numpy(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("steps", [[9], [4, 5], [1, 1, 1, 6]])
def test_every_row_equals_the_models_output_after_that_path(steps: list[int]) -> None:
    plain, text = small_model(), np.random.default_rng(3).integers(0, VOCABULARY, sum(steps)).tolist()
    lattice = read(path_drafter(), text, steps, torch.empty(0))
    assert lattice.tokens.shape == (4, 6, 5) and lattice.tokens.dtype == np.int32
    assert len(paths(lattice)) == 1 + 3 * 5
    assert_rows_follow(lattice, lambda path: plain(torch.tensor([[*text, 7, *path]])).logits[0, -1].log_softmax(-1))


def test_the_best_nodes_of_each_depth_are_extended() -> None:
    lattice = read(path_drafter(3, 3), PROMPT, [len(PROMPT)], torch.empty(0))
    totals = lattice.logprobs[0, 0][:, None] + lattice.logprobs[1, lattice.follow[0, 0]]
    going_on = totals[lattice.follow[1, lattice.follow[0, 0]] < 3]
    assert len(going_on) == 3 and going_on.min() >= np.sort(totals.ravel())[-3]


def test_full_chains_are_accepted_from_a_copy_of_the_target() -> None:
    target = small_target()
    twin = AutoregressiveDrafter(copy.deepcopy(target.model), VOCABULARY, BeamShape(4, 1))
    rounds = run(Request(PROMPT, method="expand", budget=20, max_tokens=30), target, [twin])
    assert {len(round_.committed) for round_ in rounds[:-1]} == {5}


def test_beyond_its_context_a_drafter_stops_and_the_text_continues() -> None:
    target, model = small_target(), small_model()
    model.config.max_position_embeddings = 32
    drafter = AutoregressiveDrafter(model, VOCABULARY, BeamShape(4, 5))
    request = Request(PROMPT, method="expand", budget=16, max_tokens=60)
    rounds = run(request, target, [drafter])
    assert text(rounds) == plain_text(request, target)
    assert rounds[0].drafts[0].depth == 4 and rounds[-1].drafts[0].depth == 0
    assert rounds[-1].start > 32
    for round_ in rounds:
        decode_round(encode_record(round_))
