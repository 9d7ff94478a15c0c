"""The device of passes: the hardware's name, inference mode, and whether threads spin or sleep at barriers.

Inference mode skips autograd's bookkeeping. Entering and leaving it takes as long as three small kernels, so a round
does it once, and the functions that it calls only check that it is on.

How long OpenMP's threads spin at barriers is fixed when the library is loaded (``engine/machine/threads.py``), with one
exception: GNU's OpenMP lets threads sleep at once while it manages more threads than there are processors. A second,
idle team of threads, started by another Python thread, brings that about; when that thread ends, the others spin again.
Other OpenMP libraries are not affected, and spin only briefly.
"""

import os
import platform
from collections.abc import Callable, Generator
from functools import wraps
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import ParamSpec, TypeVar

import torch
from transformers import PreTrainedModel

from engine.machine.threads import BUSY_THRESHOLD, OtherWork, TorchThread
from engine.records import Round

POLL_SECONDS = 0.25  # between two measurements of other programs' load
IDLE_SECONDS = 2.0  # without a pass, after which the second team ends
IDLE_THRESHOLD = 0.25  # missing processors: threads sleep from ``BUSY_THRESHOLD`` on, and spin again below this
PARALLEL_SIZE = 2**20  # numbers, enough for torch to add them with all its threads

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def hardware(device: torch.device, gpus: int = 1) -> str:
    """Return the device's name, for example ``NVIDIA H200``, ``2 × NVIDIA H200`` or ``AMD EPYC, 2 cores``."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return f"{gpus} × {name}" if gpus > 1 else name
    name = platform.processor() or platform.machine()
    if (information := Path("/proc/cpuinfo")).is_file():
        lines = information.read_text(encoding="utf8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores"


def gpus_of(model: PreTrainedModel) -> int:
    """Return how many devices a model is spread over."""
    return len(set(getattr(model, "hf_device_map", {"": 0}).values()))


def in_inference_mode(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Wrap a function so that it runs in inference mode."""
    @wraps(call)
    def inside(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if torch.is_inference_mode_enabled():
            return call(*args, **kwargs)
        with torch.inference_mode():
            return call(*args, **kwargs)
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


class WaitingPolicy:
    """Decides before each pass on a CPU whether threads sleep or spin. It measures the load every ``POLL_SECONDS``, and
    otherwise costs one reading of the clock."""

    def __init__(self, others: OtherWork | None = None) -> None:
        self._others = others or OtherWork()
        self._next = perf_counter() + POLL_SECONDS
        self._second: OmpSpinSuppressor | None = None

    @property
    def asleep(self) -> bool:
        """Whether threads sleep as soon as they reach a barrier."""
        return self._second is not None and self._second.is_alive()

    def adapt(self) -> None:
        """Let threads sleep at barriers while other programs want the processors, and spin while they do not."""
        now = perf_counter()
        if now < self._next:
            return
        self._next = now + POLL_SECONDS
        missing = self._others.missing(torch.get_num_threads())
        if self.asleep and self._second:
            self._second.needed.set() if missing >= IDLE_THRESHOLD else self._second.stop()
        elif missing >= BUSY_THRESHOLD and torch.get_num_threads() > 1:
            self._second = OmpSpinSuppressor()


class OmpSpinSuppressor(TorchThread):
    """A thread with an idle team of OpenMP threads. It ends when stopped, or after ``IDLE_SECONDS`` without a pass."""

    def __init__(self) -> None:
        super().__init__("second team", self._hold_team, self.stop)
        self.needed, self._over = Event(), False
        self.start()

    def stop(self) -> None:
        self._over = True
        self.needed.set()

    def _hold_team(self) -> None:
        torch.zeros(PARALLEL_SIZE).add_(1)
        while self.needed.wait(IDLE_SECONDS) and not self._over:
            self.needed.clear()
