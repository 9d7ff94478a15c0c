"""The decode loop over rounds of fixed shape: a drop-in for ``engine.decode.decode`` where it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from engine.decode import Drafter, decode, plan
from engine.drafters.dflash import DFlashDrafter
from engine.errors import RequestError
from engine.methods import method_named
from engine.pace import FIXED, Pacer
from engine.records import Request, Round
from engine.runtime.fixed.machine import RUNNERS, Machine, inside, setting_of
from engine.runtime.fixed.passes import SMALLEST_EXTENT, extent_of
from engine.runtime.fixed.round import BUILD
from engine.runtime.inference import each_inferring
from engine.runtime.passes import ShortPass
from engine.runtime.target import TorchTarget

LASTING = frozenset({"cuda"})  # devices on which a machine costs more to make than a short text


def serves(request: Request, target: TorchTarget, drafters: Sequence[Drafter]) -> bool:
    """Whether rounds of fixed shape compute what ``decode`` would."""
    row = method_named(request.method)
    return (row.accept == "walk" and row.build in BUILD and request.pace == FIXED
            and isinstance(target.fastest, ShortPass) and target.device.type in RUNNERS
            and all(isinstance(inside(head), DFlashDrafter) for head in drafters[:row.heads]))


class Loop(Protocol):
    """Decodes requests with one target."""

    def decode(self, request: Request, drafters: Sequence[Drafter]) -> Iterator[Round]:
        """See ``engine.decode.decode``."""

    def close(self) -> None:
        """Free what is kept from run to run."""


class HostLoop:
    """``engine.decode.decode``: between drafting and acceptance the host decides."""

    def __init__(self, target: TorchTarget) -> None:
        self.target = target

    def decode(self, request: Request, drafters: Sequence[Drafter], pacer: Pacer | None = None) -> Iterator[Round]:
        """See ``Loop``; a ``pacer`` as in ``engine.decode.decode``."""
        return each_inferring(decode(request, self.target, drafters, pacer))

    def close(self) -> None:
        """See ``Loop``: every run frees its own."""


class FixedLoop:
    """One target's rounds of fixed shape, one run at a time; ``smallest`` is the least extent of a cache.

    The end of a run frees its caches. On a CUDA device those of the latest kind of request stay, with their graphs,
    until a request of another kind or ``close``.
    """

    def __init__(self, target: TorchTarget, smallest: int = SMALLEST_EXTENT) -> None:
        self.target, self.smallest = target, smallest
        self._kind: tuple[object, ...] = ()
        self._machine: Machine | None = None

    def decode(self, request: Request, drafters: Sequence[Drafter]) -> Iterator[Round]:
        """The rounds of ``engine.decode.decode``, by itself where fixed shapes do not serve the request."""
        work = plan(request, self.target, drafters)
        if not serves(request, self.target, drafters):
            return HostLoop(self.target).decode(request, drafters)
        return self._rounds(request, work.heads)

    def close(self) -> None:
        """Free caches and graphs."""
        self._machine = None

    def _rounds(self, request: Request, heads: Sequence[Drafter]) -> Iterator[Round]:
        try:
            machine = self._machine_for(request, heads)
            yield from machine.rounds(request, machine.open(request), self.smallest)
        finally:
            machine = None  # type: ignore[assignment]
            if self.target.device.type not in LASTING:
                self.close()

    def _machine_for(self, request: Request, heads: Sequence[Drafter]) -> Machine:
        """The latest run's machine where it fits, else a new one."""
        kind = (replace(request, prompt_ids=(), max_tokens=0, sampling=replace(request.sampling, seed=0)),
                *map(id, heads))
        limit = self.target.context_limit
        longest = extent_of(min(len(request.prompt_ids) + request.max_tokens, limit), self.smallest)
        if self._machine is None or self._kind != kind or self._machine.longest < longest:
            self._machine = None
            try:
                self._machine = Machine(self.target, setting_of(request, limit), heads, longest)
            except RuntimeError as error:  # torch's out-of-memory error is one too
                raise RequestError(f"Caches of {longest} positions do not fit into memory; lower max tokens or the "
                                   "node budget.") from error
            self._kind = kind
        return self._machine


# On the CPU rounds of fixed shape take 5 to 13 % longer than the host's own (engine/LOG.md).
LOOPS: Mapping[str, type[HostLoop] | type[FixedLoop]] = MappingProxyType({"cpu": HostLoop, "cuda": FixedLoop})


def loop_on(target: TorchTarget) -> Loop:
    """The loop that serves the target's device best."""
    return LOOPS.get(target.device.type, HostLoop)(target)
