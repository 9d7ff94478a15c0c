"""CUDA-graph rounds, run eagerly, against ``decode``: the same, whatever the method, the budget or the sampling."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from engine.decoding.loop import decode
from engine.decoding.plan import Drafter
from engine.errors import RequestError
from engine.records import Ask, DraftTree, Request, Round, Sampling
from engine.runtime.graphs import graphs, machine
from engine.runtime.graphs.decode import GraphLoop, serves
from engine.runtime.graphs.graphs import GraphRunner
from engine.runtime.graphs.passes import bucket_of
from engine.runtime.rigs.loops import CUDA_GRAPHS, HostLoop, loop_on
from engine.runtime.target.passes import FusedPass
from engine.runtime.target.target import TorchTarget
from engine.trees.tree import path_to
from tests.engine.runtime.demo import demo_live, demo_rig
from tests.engine.runtime.small import TAPS, small_config, small_drafter, small_target

PROMPT = tuple(range(5, 25))
METHODS = ["autoregressive", "dflash", "ddtree", "routed", "merged", "joint"]
CLOSE: dict[str, Any] = {"atol": 2e-4, "rtol": 1e-4}


def nodes_of(tree: DraftTree) -> Counter[tuple[tuple[int, ...], int]]:
    """Every node as its path of tokens and its drafters, whatever its row."""
    return Counter((tuple(tree.tokens[path_to(tree.parents, node)].tolist()), int(tree.drafters[node]))
                   for node in range(len(tree)))


def assert_same_tree(found: DraftTree, wanted: DraftTree) -> None:
    """The same nodes. Float32 rounds otherwise behind hidden slots, so nodes within ``CLOSE`` of each other may change
    places, and at the end of the budget one may stand for the other; ``test_trees`` has the builders bit for bit."""
    for name in ("tokens", "parents", "drafters"):
        assert getattr(found, name).dtype == np.int32
    np.testing.assert_allclose(np.sort(found.logprobs), np.sort(wanted.logprobs), **CLOSE)
    last = float(wanted.logprobs.min())
    for tree, other in ((found, wanted), (wanted, found)):
        for (path, drafters), _ in (nodes_of(tree) - nodes_of(other)).items():
            own = [tree.logprobs[node] for node in range(len(tree)) if tree.drafters[node] == drafters
                   and tuple(tree.tokens[path_to(tree.parents, node)].tolist()) == path]
            np.testing.assert_allclose(own, last, **CLOSE)


def assert_same_round(found: Round, wanted: Round) -> None:
    """The text bit for bit; trees and what the target says up to float32's rounding."""
    assert (found.index, found.start, found.acceptance.bonus) == (wanted.index, wanted.start, wanted.acceptance.bonus)
    np.testing.assert_array_equal(found.committed, wanted.committed)
    for each, other in zip((found.tree, *found.candidates), (wanted.tree, *wanted.candidates), strict=True):
        assert_same_tree(each, other)
    for lattice, other_lattice in zip(found.drafts, wanted.drafts, strict=True):
        assert lattice.tokens.shape == lattice.follow.shape == other_lattice.tokens.shape
        np.testing.assert_allclose(lattice.logprobs, other_lattice.logprobs, **CLOSE)
    if not np.array_equal(found.tree.tokens, wanted.tree.tokens):  # some changed places
        assert found.scores == pytest.approx(wanted.scores, rel=1e-4)
        return
    alike = found.verification.choice == wanted.verification.choice  # a draw may lie on the edge between two tokens
    assert alike.mean() >= 0.95
    for name, rows in (("logprobs", alike), ("entropy", slice(None)), ("gap", slice(None)), ("offered", slice(None)),
                       ("processed", alike[wanted.tree.parents])):
        np.testing.assert_allclose(
            getattr(found.verification, name)[rows], getattr(wanted.verification, name)[rows], atol=1e-3, rtol=1e-3)
    assert found.scores == pytest.approx(wanted.scores, rel=1e-4)
    assert found.seconds.keys() == wanted.seconds.keys()


def assert_same(request: Request, target: TorchTarget, drafters: Sequence[Drafter], smallest: int = 16) -> list[Round]:
    assert serves(request, target, drafters)
    found = list(GraphLoop(target, smallest).decode(request, drafters))
    wanted = list(decode(request, target, drafters))
    assert len(found) == len(wanted)
    for each, other in zip(found, wanted, strict=True):
        assert_same_round(each, other)
    return found


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 12, 0.95, 3)], ids=["greedy", "warm"])
@pytest.mark.parametrize("method", METHODS)
def test_rounds_are_those_of_decode(method: str, sampling: Sampling) -> None:
    target = small_target()
    drafters = [small_drafter(target, 1), small_drafter(target, 2, block=4)]
    for budget in (0, 1, 7, 33):
        rounds = assert_same(Request(PROMPT, method=method, budget=budget, max_tokens=40,
                                     sampling=sampling), target, drafters)
        assert len({token for made in rounds for token in made.committed.tolist()}) > 8


def experts_target() -> TorchTarget:
    torch.manual_seed(0)
    sizes = {name: value for name, value in small_config().to_dict().items() if name != "model_type"}
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(
        **sizes, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24))
    for value in model.parameters():
        if value.ndim > 1:
            value.data.normal_(0, 0.15 if value.ndim == 2 else 0.8)
    return TorchTarget(model, TAPS)


def test_rounds_of_a_mixture_of_experts_are_those_of_decode_too() -> None:
    target = experts_target()
    rounds = assert_same(Request(PROMPT, method="ddtree", budget=9, max_tokens=40), target, [small_drafter(target)])
    assert len({token for made in rounds for token in made.committed.tolist()}) > 8


@pytest.mark.parametrize("causal", [None, False])
def test_sliding_layers_of_a_drafter_slide_here_too(causal: bool | None) -> None:
    target = small_target()
    drafters = [small_drafter(target, 1, window=5, causal=causal), small_drafter(target, 2)]
    rounds = assert_same(Request(PROMPT, method="merged", budget=9, max_tokens=40), target, drafters)
    full = decode(Request(PROMPT, method="merged", budget=9,
                          max_tokens=40), target, [small_drafter(target, 1), drafters[1]])
    assert any(not np.array_equal(made.tree.tokens, other.tree.tokens) for made, other in zip(
        rounds, full, strict=False))


@pytest.mark.parametrize("method", ["autoregressive", "ddtree", "merged"])
def test_stop_tokens_and_the_context_limit_end_a_text_alike(method: str) -> None:
    target = small_target()
    drafters = [small_drafter(target, 1), small_drafter(target, 2)]
    plain = [int(token) for made in decode(Request(PROMPT, method="autoregressive", budget=0,
                                                   max_tokens=40), target, [])
             for token in made.committed]
    assert_same(Request(PROMPT, method=method, budget=9, max_tokens=40,
                        stop_ids=frozenset({plain[17], 95})), target, drafters)
    long = tuple(range(80)) * 3
    rounds = assert_same(Request(long, method=method, budget=9, max_tokens=40), target, drafters)
    assert rounds[-1].start + len(rounds[-1].acceptance.keep) == target.context_limit


def test_merged_with_the_whole_budget_for_each_drafter() -> None:
    target = small_target()
    drafters = [small_drafter(target, 1), small_drafter(target, 2)]
    rounds = assert_same(Request(PROMPT, method="merged", budget=9, max_tokens=20, split="each"), target, drafters)
    assert len(rounds[0].tree) == 19


@pytest.mark.parametrize("method", ["dflash", "ddtree", "routed", "merged", "joint"])
def test_rounds_of_the_demo_rig_while_its_cache_grows(method: str) -> None:
    rig = demo_rig()
    ask = Ask("Omar has 6 boxes with 9 books in each box. How many books?", method=method, budget=24, max_tokens=48)
    request, drafters = demo_live().request(ask), list(rig.drafters_for(method).values())
    rounds = assert_same(request, rig.target, drafters, smallest=16)
    buckets = {bucket_of(made.start, 16) for made in rounds}
    assert len(buckets) > 2
    assert max(len(made.acceptance.keep) for made in rounds) > 3, "nothing accepted, nothing moved"


def test_closing_frees_the_caches() -> None:
    target = small_target()
    loop = GraphLoop(target)
    rounds = loop.decode(Request(PROMPT, method="ddtree", budget=7, max_tokens=40), [small_drafter(target)])
    gc.disable()  # memory of a device must not wait for the collector
    try:
        next(rounds)
        assert loop._machine is not None
        slots = weakref.ref(loop._machine.cache.slots)
        rounds.close()
        assert slots() is None
    finally:
        gc.enable()


def test_what_cannot_be_captured_runs_eagerly_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "RUNNERS", {"cpu": GraphRunner})  # no graphs here, so every capture fails
    target = small_target()
    with pytest.warns(UserWarning, match="could not be captured as a graph") as said:
        assert_same(Request(PROMPT, method="ddtree", budget=7,
                            max_tokens=40), target, [small_drafter(target)], smallest=64)
    assert len(said) == 1


def test_out_of_memory_in_a_capture_ends_the_run_and_not_the_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def full(_work: object, state: torch.Tensor, _pool: object) -> None:
        tried.append(int(state[0]))
        state += 5
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(machine, "RUNNERS", {"cpu": GraphRunner})
    monkeypatch.setattr(graphs, "Graph", full)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    loop = GraphLoop(small_target(), 64)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            next(loop.decode(Request(PROMPT, method="ddtree", budget=7, max_tokens=40), [small_drafter(loop.target)]))
    assert tried == [len(PROMPT)] * 2


def test_experts_that_a_graph_cannot_hold_are_run_without(monkeypatch: pytest.MonkeyPatch) -> None:
    small, experts = small_target().fastest, experts_target().fastest
    assert isinstance(small, FusedPass) and isinstance(experts, FusedPass)
    graphs.must_be_capturable(small)
    with pytest.raises(RuntimeError, match="the host chooses its experts"):
        graphs.must_be_capturable(experts)


def test_graphs_are_parked_after_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu: Any = SimpleNamespace(device=torch.device("cuda"))
    for wanted, kind in (("", HostLoop), ("0", HostLoop), ("1", GraphLoop)):
        monkeypatch.setenv(CUDA_GRAPHS, wanted)
        assert type(loop_on(gpu)) is kind
        assert isinstance(loop_on(small_target()), HostLoop)  # on a CPU whatever is asked for


def test_requests_are_refused_and_others_passed_on_as_decode_does() -> None:
    target = small_target()
    loop, drafters = GraphLoop(target), [small_drafter(target)]
    with pytest.raises(RequestError, match="The prompt is empty"):
        loop.decode(Request((), method="ddtree", budget=7, max_tokens=40), drafters)
    other = Request(PROMPT, method="ddtree", budget=7, max_tokens=12, pace="auto")
    assert not serves(other, target, drafters)
    found = [made.committed.tolist() for made in loop.decode(other, drafters)]
    assert found == [made.committed.tolist() for made in decode(other, target, drafters)]


@pytest.mark.parametrize(("length", "bucket"), [(1, 256), (256, 256), (257, 512), (2048, 2048), (2049, 2560),
                                                (4095, 4096), (9000, 10240)])
def test_extents_hold_the_prefix_and_a_quarter_more_at_most(length: int, bucket: int) -> None:
    assert bucket_of(length) == bucket
