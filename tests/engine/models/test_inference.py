"""Inference mode is entered once a round, and is nobody's between rounds."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import torch

from engine.decoding.loop import decode
from engine.models.device import in_inference_mode, rounds_in_inference_mode
from engine.records import Request, Round
from tests.engine.small import small_drafter, small_target

REQUEST = Request(tuple(range(5, 25)), method="ddtree", budget=7, max_tokens=20)


def test_a_call_is_made_in_inference_mode_whoever_makes_it() -> None:
    @in_inference_mode
    def seen(number: int, *, more: int = 0) -> tuple[bool, int]:
        return torch.is_inference_mode_enabled(), number + more

    assert seen(1, more=2) == (True, 3) and not torch.is_inference_mode_enabled()
    with torch.inference_mode():
        assert seen(1) == (True, 1)
    assert seen.__name__ == "seen"


def test_rounds_are_the_same_and_the_mode_is_left_between_them() -> None:
    target = small_target()
    wanted = [made.committed.tolist() for made in decode(REQUEST, target, [small_drafter(target)])]
    found = []
    for made in rounds_in_inference_mode(decode(REQUEST, target, [small_drafter(target)])):
        assert not torch.is_inference_mode_enabled()
        found.append(made.committed.tolist())
    assert found == wanted


def test_what_a_round_raises_and_an_early_end_leave_the_mode_too() -> None:
    ended: list[bool] = []

    def rounds() -> Generator[Round, None, None]:
        try:
            yield from decode(REQUEST, target, [small_drafter(target)])
            raise ValueError("broken")
        finally:
            ended.append(torch.is_inference_mode_enabled())

    target = small_target()
    with pytest.raises(ValueError, match="broken"):
        list(rounds_in_inference_mode(rounds()))
    early = rounds_in_inference_mode(rounds())
    next(early)
    early.close()
    assert len(ended) == 2 and not torch.is_inference_mode_enabled()
