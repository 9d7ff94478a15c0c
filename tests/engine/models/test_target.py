"""The torch target against plain forward passes of the same model."""

import gc
import resource
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from engine.decoding.loop import decode
from engine.decoding.methods import METHODS
from engine.decoding.plan import LazyVerification
from engine.decoding.tree import pack, path_to
from engine.models.target import TorchTarget
from engine.records import DraftTree, Request, Round, Sampling, Verification
from tests.engine.material import plain_text, text_of
from tests.engine.small import DFLASH2, TAPS, small_drafter, small_target

PROMPT = tuple(range(5, 25))
PARENTS = np.asarray([0, 0, 0, 1, 1, 2, 5, 3], np.int32)


def tree_below(root: int) -> DraftTree:
    tokens = np.asarray([root, 50, 60, 70, 80, 90, 11, 12], np.int32)
    return DraftTree(tokens, PARENTS, np.zeros(8, np.float32), np.ones(8, np.int32))


def plain_logits(target: TorchTarget, token_ids: list[int]) -> torch.Tensor:
    """The last position's logits of a pass without cache or mask, from a copy that no hook listens to."""
    copy = Qwen3ForCausalLM(target.model.config).eval()
    copy.load_state_dict(target.model.state_dict())
    with torch.no_grad():
        logits: torch.Tensor = copy(torch.tensor([token_ids])).logits[0, -1]
    return logits


def test_every_node_sees_exactly_its_own_path() -> None:
    target = small_target()
    root, _ = target.prefill(PROMPT, 20, Sampling())
    tree = tree_below(root)
    said = target.verify(pack(tree, len(PROMPT)))
    for node in range(len(tree)):
        path = [*PROMPT, *tree.tokens[path_to(PARENTS, node)].tolist()]
        logits = plain_logits(target, path)
        assert said.choice[node] == logits.argmax()
        own = logits.log_softmax(-1)
        assert said.logprobs[node] == pytest.approx(float(own.max()), abs=1e-4)
        assert said.entropy[node] == pytest.approx(float(torch.special.entr(own.exp()).sum()), abs=1e-3)
        top = logits.topk(2).values
        assert said.gap[node] == pytest.approx(float(top[0] - top[1]), abs=1e-4)
        if node:
            before = plain_logits(target, path[:-1]).log_softmax(-1)
            assert said.offered[node] == pytest.approx(float(before[path[-1]]), abs=1e-4)


@pytest.mark.parametrize("keep", [[0], [0, 1, 3, 7], [0, 2, 5, 6], [0, 1, 4]])
def test_the_next_pass_after_keep_equals_one_without_a_cache(keep: list[int]) -> None:
    target = small_target()
    root, _ = target.prefill(PROMPT, 40, Sampling())
    tree = tree_below(root)
    target.verify(pack(tree, len(PROMPT)))
    features = target.commit(np.asarray(keep, np.int32))
    text = [*PROMPT, *tree.tokens[keep].tolist()]
    following = tree_below(33)
    said = target.verify(pack(following, len(text)))
    for node in (0, 3, 6):
        path = [*text, *following.tokens[path_to(PARENTS, node)].tolist()]
        assert said.logprobs[node] == pytest.approx(float(plain_logits(target, path).log_softmax(-1).max()), abs=1e-4)
    copy = Qwen3ForCausalLM(target.model.config).eval()
    copy.load_state_dict(target.model.state_dict())
    with torch.no_grad():
        states = copy(torch.tensor([text]), output_hidden_states=True).hidden_states
    wanted = torch.cat([states[layer + 1][0, -len(keep):] for layer in TAPS], -1)
    torch.testing.assert_close(features, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 0, 0.95, 3), Sampling(1.3, 12, 1.0, 4)])
@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.family == "dflash"])
def test_every_method_writes_the_autoregressive_text(method: str, sampling: Sampling) -> None:
    target = small_target()
    marginals, transitions = [small_drafter(target, seed) for seed in (1, 2)], small_drafter(target, 3, options=DFLASH2)
    request = Request(PROMPT, method=method, max_tokens=40, sampling=sampling)
    wanted = plain_text(request, target)
    assert len(set(wanted)) > 8, "a text that repeats itself proves nothing"
    for drafters in (marginals, [transitions, marginals[0]]):
        for budget in (0, 1, 7, 33):
            assert text_of(replace(request, budget=budget), target, drafters) == wanted


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, top_p=0.9, seed=3)], ids=["greedy", "sampled"])
def test_statistics_that_are_read_after_the_run_are_those_of_their_round(
        sampling: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> list[Round]:
        target = small_target()
        return list(decode(Request(PROMPT, method="ddtree", budget=12, max_tokens=20,
                                   sampling=sampling), target, [small_drafter(target, 1)]))

    late = [made.verification for made in run()]
    assert all(type(found) is LazyVerification and "entropy" not in vars(found) for found in late)
    monkeypatch.setattr("engine.models.sampling.WAITING", 0)
    at_once = [made.verification for made in run()]
    assert len(late) == len(at_once) > 2 and all(type(found) is Verification for found in at_once)
    for found, wanted in zip(late, at_once, strict=True):
        for field in fields(Verification):
            np.testing.assert_array_equal(getattr(found, field.name), getattr(wanted, field.name))
        assert set(vars(found)) == {field.name for field in fields(Verification)}, "the logits are let go"
        with pytest.raises(AttributeError, match="sureness"):
            _ = found.sureness  # type: ignore[attr-defined]


def test_release_frees_the_cache_and_closing_the_iterator_releases() -> None:
    target = small_target()
    rounds = decode(Request(PROMPT, method="autoregressive", budget=0, max_tokens=40), target, [])
    next(rounds)
    assert target._cache is not None
    rounds.close()
    assert target._cache is None and target._output.tapped.numel() == 0


@pytest.mark.parametrize("rounds", [400, pytest.param(5000, marks=pytest.mark.long)])
def test_rounds_do_not_grow_the_process(rounds: int) -> None:
    target = small_target()
    drafters = [small_drafter(target, seed) for seed in (1, 2)]

    def some(rounds: int) -> None:
        done = 0
        while done < rounds:
            for _ in decode(Request(PROMPT, method="joint", budget=8, max_tokens=200), target, drafters):
                done += 1

    some(100)
    gc.collect()
    before = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some(rounds)
    gc.collect()
    after = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after[0] - before[0] < rounds // 10, f"{after[0] - before[0]} more objects"
    assert after[1] - before[1] < 20_000, f"{after[1] - before[1]} KiB more at the peak"
