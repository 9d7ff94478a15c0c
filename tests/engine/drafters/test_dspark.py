"""Drafters whose every slot depends on the token before it, against their formulas written out: DSpark (DeepSpec,
speculators 0.9) and TreeFlash (ETH-DISCO/TreeFlash)."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from engine.decoding.builders import best_first, chain
from engine.decoding.tree import path_to
from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.lattices import BLOCK, LARGE, PREDECESSORS, likeliest_tokens
from tests.engine.drafters.dflash_reference import normed
from tests.engine.small import VOCABULARY, small_drafter, small_target

Rule = Callable[[DFlashDrafter, Tensor, int], Tensor]  # logits of a slot by its hidden state and the token before it


def markov(drafter: DFlashDrafter, state: Tensor, before: int) -> Tensor:
    head, last = drafter.model.markov_head, normed(state, drafter.model.norm.weight, 1e-6)
    assert head is not None
    known = head.markov_w1.weight[before]
    if head.gate_proj is not None:
        known = torch.sigmoid(head.gate_proj.weight @ torch.cat([last, known]) + head.gate_proj.bias) * known
    return drafter.embedding.weight @ last + head.markov_w2.weight @ known


def corrected(drafter: DFlashDrafter, state: Tensor, before: int) -> Tensor:
    model, gain = drafter.model, drafter.model.norm.weight
    correction = model.ar_approximation
    assert correction is not None
    above = normed(drafter.embedding.weight[before], correction.norm.weight, 1e-6)
    asked = torch.cat([above, normed(state, gain, 1e-6)])
    up, gate = (correction.ug.weight @ asked + correction.ug.bias).chunk(2)
    return drafter.embedding.weight @ normed(state + correction.d.weight @ (silu(gate) * up), gain, 1e-6)


FAMILIES: Mapping[str, tuple[dict[str, object], Rule]] = {
    "DSpark": ({"markov_rank": 8, "markov_head_type": "vanilla", "sample_from_anchor": True}, markov),
    "DSpark, gated": ({"markov_rank": 8, "markov_head_type": "gated", "sample_from_anchor": True}, markov),
    "TreeFlash": ({"ar_approximation": "swiglu"}, corrected)}


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_every_prefix_of_a_tree_has_its_probability_and_the_chain_is_the_greedy_one(name: str) -> None:
    options, rule = FAMILIES[name]
    drafter = small_drafter(small_target(), 5, options=options)  # its head is the embedding
    for _ in range(10):
        states, root = 2 * torch.randn(1, 5, 48), int(torch.randint(VOCABULARY, ()))
        lattice, = drafter.lattices(states, torch.tensor([root]), 12)
        assert lattice.tokens.shape == (5, PREDECESSORS + 1, 12)
        before, greedy = root, []
        for state in states[0]:
            before = int(rule(drafter, state, before).argmax())
            greedy.append(before)
        assert chain(lattice, root, 5).tokens[1:].tolist() == greedy
        tree = best_first(lattice, root, 40)
        for node in range(len(tree)):
            tokens = tree.tokens[path_to(tree.parents, node)].tolist()
            total = sum(float(rule(drafter, states[0, depth], above).log_softmax(-1)[token])
                        for depth, (above, token) in enumerate(zip(tokens, tokens[1:], strict=False)))
            np.testing.assert_allclose(tree.logprobs[node], total, atol=1e-5, rtol=1e-5)


WIDTH = 6


@pytest.mark.parametrize("vocabulary", [*(LARGE * WIDTH + more for more in (-1, 0, 1, BLOCK - 1)), 49_152])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_search_by_blocks_finds_the_same_tokens_as_a_full_sort(
        vocabulary: int, dtype: torch.dtype) -> None:
    logits = (torch.randn(5, vocabulary, generator=torch.Generator().manual_seed(vocabulary)) * 3).to(dtype)
    logits[0, -WIDTH:] = 30 + torch.arange(WIDTH)  # in the remainder that fills no block
    logits[1, :BLOCK * WIDTH] = 25  # more ties than tokens are asked for
    logits[2, ::vocabulary // BLOCK] = 25  # all in one block
    logprobs, tokens = likeliest_tokens(logits, WIDTH)
    every = logits.log_softmax(-1, torch.float32)
    assert torch.equal(logprobs, every.topk(WIDTH, -1).values)
    assert torch.equal(every.gather(-1, tokens), logprobs)
    assert all(len(set(row)) == WIDTH for row in tokens.tolist())


def test_no_more_tokens_are_returned_than_a_small_vocabulary_has() -> None:
    assert likeliest_tokens(torch.zeros(2, 3), WIDTH)[0].shape == (2, 3)
