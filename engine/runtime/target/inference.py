"""Without autograd's bookkeeping. To enter and leave that takes as long as three small kernels, so a round does it once
and what it calls looks only whether somebody has."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from engine.records import Round

Given = ParamSpec("Given")
Found = TypeVar("Found")


def inferring(call: Callable[Given, Found]) -> Callable[Given, Found]:
    """The call in inference mode."""
    @wraps(call)
    def inside(*given: Given.args, **named: Given.kwargs) -> Found:
        if torch.is_inference_mode_enabled():
            return call(*given, **named)
        with torch.inference_mode():
            return call(*given, **named)
    return inside


def each_inferring(rounds: Generator[Round, None, None]) -> Generator[Round, None, None]:
    """Each round made in inference mode, and handed out outside of it: the mode is the thread's."""
    try:
        while True:
            with torch.inference_mode():
                made = next(rounds, None)
            if made is None:
                return
            yield made
    finally:
        rounds.close()
