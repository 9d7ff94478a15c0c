"""Inference mode, which skips autograd's bookkeeping. Entering and leaving it takes as long as three small kernels, so
a round does it once, and the functions it calls only check that it is on."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from engine.records import Round

Given = ParamSpec("Given")
Found = TypeVar("Found")


def in_inference_mode(call: Callable[Given, Found]) -> Callable[Given, Found]:
    """Wrap a function so that it runs in inference mode."""
    @wraps(call)
    def inside(*given: Given.args, **named: Given.kwargs) -> Found:
        if torch.is_inference_mode_enabled():
            return call(*given, **named)
        with torch.inference_mode():
            return call(*given, **named)
    return inside


def rounds_in_inference_mode(rounds: Generator[Round, None, None]) -> Generator[Round, None, None]:
    """Make each round in inference mode and yield it outside: the mode belongs to the thread, not to the generator."""
    try:
        while True:
            with torch.inference_mode():
                finished = next(rounds, None)
            if finished is None:
                return
            yield finished
    finally:
        rounds.close()
