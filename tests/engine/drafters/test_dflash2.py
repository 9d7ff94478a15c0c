"""DFlash 2 against the published package's numbers: z-lab's ``dflash`` 0.1.0, see ``dflash2_reference.py``."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from engine.checkpoints.weights import fill_model
from engine.decoding.builders import chain
from engine.drafters.dflash.checkpoint import drafter_config
from engine.drafters.dflash.drafter import DFlashDrafter, TextFeatures
from engine.drafters.dflash.model import DFlashModel
from engine.lab.replay import KnownText, Replay, read_known_text
from engine.lab.settings import Setting
from engine.models.packed_linear import PackedHead
from engine.records import Floats, Lattice, Request, Sampling
from engine.trace import committed_ids
from tests.engine.drafters.dflash2_reference import (
    CONFIGS,
    CONTEXTS,
    HIDDEN,
    NUMBERS,
    PREDECESSORS,
    TEMPERATURE,
    Context,
    contexts,
    target_weights,
    weights,
)
from tests.engine.helpers import run
from tests.engine.small import DFLASH2, small_drafter, small_target

close = partial(np.testing.assert_allclose, atol=1e-5, rtol=1e-5)


def opened(name: str, folder: Path) -> DFlashDrafter:
    """Return a drafter with the reference's weights and a config read from a file."""
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
    model = DFlashModel(drafter_config(folder))
    values = weights({key: tuple(value.shape) for key, value in model.state_dict().items()})
    fill_model(model, {key: torch.from_numpy(value) for key, value in values.items()}, folder)
    embedding, head = (torch.from_numpy(value) for value in target_weights())
    output = nn.Linear(HIDDEN, len(head), bias=False)
    output.weight.data = head
    return DFlashDrafter(model, nn.Embedding.from_pretrained(embedding), PackedHead(output))


def observed(drafter: DFlashDrafter, context: Context) -> None:
    """Let the drafter observe the context in two steps."""
    middle = len(context.features) // 2
    drafter.begin(len(context.features) + 1)
    for rows in (context.features[:middle], context.features[middle:]):
        drafter.observe(np.arange(len(rows), dtype=np.int32), torch.from_numpy(rows))


def states_of(drafter: DFlashDrafter, context: Context) -> torch.Tensor:
    """Return the block's normed hidden states by the training pass: (block − 1, hidden size)."""
    rows, model = len(context.features), drafter.model
    slots = torch.arange(rows, rows + drafter.block)
    tokens = torch.tensor([context.root] + [drafter.mask_id] * (drafter.block - 1))
    with torch.no_grad():
        states: torch.Tensor = model(drafter.embedded(tokens)[None], model.rotation(slots), model.context(
            torch.from_numpy(context.features)[None], model.rotation(torch.arange(rows))), None,
            (slots, torch.arange(rows + drafter.block)))
    last: torch.Tensor = model.norm(states[0, 1:]).detach()
    return last


def log_softmax(values: NDArray[np.floating]) -> NDArray[np.float64]:
    return torch.from_numpy(values).double().log_softmax(-1).numpy()


def after(lattice: Lattice, candidates: NDArray[np.int64], predecessor: int) -> Floats:
    """Return log probabilities (depth, 16) of the candidates after this predecessor, in the candidates' order."""
    rows = np.where(np.arange(lattice.depth) == 0, 0, predecessor)
    depth = np.arange(lattice.depth)
    tokens, logprobs = lattice.tokens[depth, rows], lattice.logprobs[depth, rows]
    np.testing.assert_array_equal(np.take_along_axis(candidates, lattice.follow[depth, rows], -1), tokens)
    ranks = (tokens[:, None] == candidates[..., None]).argmax(-1)
    return np.take_along_axis(logprobs, ranks, -1)


@pytest.mark.parametrize("name", CONFIGS)
def test_states_logits_scores_and_walks_equal_those_of_the_published_code(name: str, tmp_path: Path) -> None:
    drafter, moved = opened(name, tmp_path), 0
    with np.load(NUMBERS) as numbers:
        wanted = {key.removeprefix(f"{name}."): numbers[key] for key in numbers if key.startswith(f"{name}.")}
    for number, context in enumerate(contexts(name)):
        observed(drafter, context)
        lattice, states = drafter.draft(context.root, 16), states_of(drafter, context)
        close(states.numpy(), wanted["hidden"][number])
        unary, candidates = drafter.logits(states).detach().numpy(), wanted["candidates"][number].astype(np.int64)
        close(np.take_along_axis(unary, candidates, -1), wanted["unary"][number])
        mass = np.exp(np.take_along_axis(log_softmax(unary), candidates, -1)).sum(-1, keepdims=True)
        for column, rank in enumerate(PREDECESSORS):
            scores = wanted["scores"][number][:, column]
            close(after(lattice, candidates, rank), log_softmax(scores) + np.log(mass))
        walk = chain(lattice, context.root, lattice.depth).tokens[1:]
        np.testing.assert_array_equal(walk, wanted["walk"][number])
        moved += int((walk != candidates[:, 0]).sum())
        predecessor = 0
        for depth, token in enumerate(wanted["drawn"][number]):  # the rows that the reference drew its walk from
            row = after(lattice, candidates, predecessor)[depth] / TEMPERATURE
            close(np.exp(log_softmax(row)), wanted["rows"][number][depth])
            predecessor = int(np.flatnonzero(candidates[depth] == token)[0])
    assert number == CONTEXTS - 1 and moved > CONTEXTS  # transitions change what is proposed


@pytest.mark.parametrize("name", CONFIGS)
def test_batched_drafts_equal_single_drafts(name: str, tmp_path: Path) -> None:
    drafter, draws = opened(name, tmp_path), torch.Generator().manual_seed(0)
    text = TextFeatures(np.arange(3, 43, dtype=np.int32), torch.randn(40, 64, generator=draws), 21, 6)
    roots, forks = text.token_ids[text.anchors].tolist(), []
    for anchor in text.anchors.tolist():
        forks.append(drafter.fork())
        observed(forks[-1], Context(text.features[:anchor].numpy(), 0))
    alone = [fork.draft(root, 9) for fork, root in zip(forks, roots, strict=True)]
    same(drafter.proposals(text, 9), alone)
    same(drafter.draft_batch(forks, roots, [9] * len(forks)), alone)


def same(lattices: Sequence[Lattice], wanted: Sequence[Lattice]) -> None:
    for lattice, expected in zip(lattices, wanted, strict=True):
        close(lattice.logprobs, expected.logprobs)
        np.testing.assert_array_equal(lattice.tokens, expected.tokens)
        np.testing.assert_array_equal(lattice.follow, expected.follow)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 0, 0.95, 3)], ids=["greedy", "sampled"])
def test_a_what_if_with_transitions_equals_the_run(sampling: Sampling) -> None:
    target = small_target()
    drafter = small_drafter(target, 3, options=DFLASH2)
    request = Request(tuple(range(5, 25)), method="ddtree", budget=24, max_tokens=40, sampling=sampling)
    rounds = run(request, target, [drafter])
    assert rounds[0].drafts[0].tokens.shape == (drafter.block - 1, 16, 16)
    token_ids = committed_ids(rounds)
    features = torch.cat(read_known_text(request, token_ids, target).features)
    text = TextFeatures(np.asarray([*request.prompt_ids, *token_ids], np.int32), features, len(request.prompt_ids))
    known = KnownText(np.asarray(token_ids, np.int32), text.start, target.context_limit,
                      {"v2": dict(enumerate(drafter.proposals(text, 24)))}, 24)
    replayed = Replay(Setting("ddtree", drafters=("v2",)), known)
    assert [len(step.keep) for step in replayed.steps(24)] == [len(round_.acceptance.keep) for round_ in rounds]
