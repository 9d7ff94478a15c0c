"""The torch target: the texts of all methods, statistics that are read later, and no memory left behind."""

import gc
import resource
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from transformers import Qwen3ForCausalLM

from engine.decoding.methods import METHODS
from engine.errors import RequestError, RigError
from engine.models import target as target_module
from engine.models.sampling import LazyVerification
from engine.records import Request, Round, Sampling, Verification
from tests.engine.helpers import decode, plain_text, text_of
from tests.engine.small import DFLASH2, small_drafter, small_target

PROMPT = tuple(range(5, 25))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.1, 12, 0.95, 3)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", [
    name for name, row in METHODS.items() if row.family == "dflash" and row.drafter_count])
def test_every_method_writes_the_autoregressive_text(method: str, sampling: Sampling) -> None:
    target = small_target()
    marginals, transitions = [small_drafter(target, seed) for seed in (1, 2)], small_drafter(target, 3, options=DFLASH2)
    request = Request(PROMPT, method=method, max_tokens=24, sampling=sampling)
    wanted = plain_text(request, target)
    assert len(set(wanted)) > 8, "a repeating text would prove nothing"
    for drafters in (marginals, [transitions, marginals[0]]):
        for budget in (0, 7, 33):
            assert text_of(replace(request, budget=budget), target, drafters) == wanted


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, top_p=0.9, seed=3)], ids=["greedy", "sampled"])
def test_statistics_read_after_the_run_are_those_of_their_round(
        sampling: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> list[Round]:
        target = small_target()
        return list(decode(Request(PROMPT, method="ddtree", budget=12, max_tokens=20,
                                   sampling=sampling), target, [small_drafter(target, 1)]))

    late = [round_.verification for round_ in run()]
    monkeypatch.setattr("engine.models.sampling.MAX_LAZY_LOGITS", 0)
    at_once = [round_.verification for round_ in run()]
    assert len(late) == len(at_once) > 2
    assert all(type(record) is LazyVerification for record in late)
    assert all(type(record) is Verification for record in at_once)
    for record, wanted in zip(late, at_once, strict=True):
        for field in fields(Verification):
            np.testing.assert_array_equal(getattr(record, field.name), getattr(wanted, field.name))


@pytest.mark.parametrize("rounds", [150, pytest.param(5000, marks=pytest.mark.long)])
def test_rounds_do_not_grow_the_process(rounds: int) -> None:
    target = small_target()
    drafters = [small_drafter(target, seed) for seed in (1, 2)]

    def some(rounds: int) -> None:
        done = 0
        while done < rounds:
            for _ in decode(Request(PROMPT, method="joint", budget=8, max_tokens=200), target, drafters):
                done += 1

    def added_objects() -> int:
        gc.collect()
        before = len(gc.get_objects())
        some(rounds)
        gc.collect()
        return len(gc.get_objects()) - before

    some(50)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    added = [added_objects()]
    while added[-1] >= rounds // 10 and len(added) < 3:  # threads of other tests may add some once
        added.append(added_objects())
    assert added[-1] < rounds // 10, f"{added} more objects"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown < 20_000, f"{grown} KiB more at the peak"


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, seed=3)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("weight", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_a_target_with_a_nan_weight_is_refused(
        weight: str, value: float, sampling: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    target = small_target()
    target.model.get_parameter(weight).data[..., 3] = value
    target = target_module.TorchTarget(target.model, ())
    with pytest.raises(RequestError, match="NaN"):
        text_of(Request(PROMPT, method="autoregressive", budget=0, max_tokens=4, sampling=sampling), target, [])
    monkeypatch.setattr(target_module, "FUSED_ARCHITECTURES", frozenset())
    with pytest.raises(RigError, match="NaN"):
        target_module.check_tree_verification(target)


def test_a_trial_with_nan_logits_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    target, honest = small_target(), Qwen3ForCausalLM.forward

    def spoilt(model: Any, *given: Any, **named: Any) -> Any:
        output = honest(model, *given, **named)
        if not named["use_cache"]:  # the plain pass that the trial compares against
            output.logits *= float("nan")
        return output
    monkeypatch.setattr(target_module, "FUSED_ARCHITECTURES", frozenset())
    monkeypatch.setattr(Qwen3ForCausalLM, "forward", spoilt)
    with pytest.raises(RigError, match="nan"):
        target_module.check_tree_verification(target)
