"""Targets whose angles depend on the length of a text: the same text with every method, before and after the switch."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.decoding.tree import pack
from engine.errors import RequestError, RigError
from engine.models.passes import FusedPass
from engine.models.target import TorchTarget, check_tree_verification
from engine.records import Request
from tests.engine.helpers import LOSSLESS, decode, plain_text, text_of
from tests.engine.models.shrunk import FallibleDrafter, shrunk

SWITCH = 24
LISTS = {"short_factor": [1.0, 1.2, 1.5, 2.0, 3.0, 4.0], "long_factor": [4.0, 8.0, 12.0, 16.0, 20.0, 24.0]}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": SWITCH,
            "attention_factor": 1.2, **LISTS}


def target_of(kind: str, **rope: Any) -> TorchTarget:
    more: dict[str, Any] = {"original_max_position_embeddings": SWITCH} if kind == "phi3" else {}
    return TorchTarget(shrunk(kind, rope_parameters={**LONGROPE, **rope}, **more), ())


@pytest.mark.parametrize("size", [12, SWITCH - 2, SWITCH + 1, 40])
@pytest.mark.parametrize("kind", ["phi3", "llama"])
def test_every_method_writes_the_text_that_transformers_generates(kind: str, size: int) -> None:
    target, prompt = target_of(kind), tuple(range(5, 5 + size))
    check_tree_verification(target)
    request = Request(prompt, budget=8, max_tokens=30)
    plain = plain_text(request, target)
    room = SWITCH - size if size <= SWITCH else 30
    wanted = target.model.generate(torch.tensor([prompt]), max_new_tokens=room, do_sample=False, eos_token_id=None)
    assert plain == wanted[0, size:].tolist()
    drafters = [FallibleDrafter(prompt, plain, seed) for seed in (0, 1)]
    for method in set(LOSSLESS) - {"autoregressive"}:
        assert text_of(replace(request, method=method), target, drafters) == plain, method


def test_no_tree_crosses_the_switch_and_a_prompt_that_fills_it_is_refused() -> None:
    target, prompt = target_of("phi3"), tuple(range(5, 20))
    plain = plain_text(Request(prompt, budget=0, max_tokens=30), target)
    rounds = decode(Request(prompt, method="ddtree", budget=8, max_tokens=30), target, [FallibleDrafter(prompt, plain)])
    assert max(int(pack(round_.tree, round_.start).positions.max()) for round_ in rounds) == SWITCH - 1
    with pytest.raises(RequestError, match=str(SWITCH)):
        plain_text(Request(tuple(range(5, 5 + SWITCH)), budget=0, max_tokens=4), target)


def test_two_equal_factor_lists_run_in_the_fused_pass() -> None:
    target = target_of("llama", short_factor=LISTS["long_factor"])
    assert isinstance(target.fastest, FusedPass) and target.positions_for(5) == target.context_limit
    request = Request(tuple(range(5, 17)), budget=8, max_tokens=30)
    wanted = target.model.generate(torch.tensor([request.prompt_ids]), max_new_tokens=30, do_sample=False,
                                   eos_token_id=None)
    assert plain_text(request, target) == wanted[0, 12:].tolist()


def test_the_trial_covers_angles_beyond_the_switch() -> None:
    target = target_of("phi3")
    rotary = target.model.model.rotary_emb
    honest = rotary.forward

    def shifted(like: torch.Tensor, positions: torch.Tensor) -> Any:
        """Rotate the rows of a tree one position too far beyond the switch."""
        return honest(like, positions + (positions.diff() != 1).any() * (positions.amax() >= SWITCH) * positions % 2)
    rotary.forward = shifted
    with pytest.raises(RigError):
        check_tree_verification(target)
