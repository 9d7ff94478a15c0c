"""The decode loop over CUDA-graph rounds: a drop-in for ``engine.decoding.loop.decode`` for the requests it serves."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from engine.decoding.budget_policy import FIXED
from engine.decoding.plan import Drafter, plan
from engine.drafters.abilities import BlockDrafter
from engine.errors import RequestError
from engine.methods import method_named
from engine.records import Request, Round
from engine.runtime.graphs.machine import RUNNERS, Machine, setting_of, unwrapped
from engine.runtime.graphs.passes import SMALLEST_BUCKET, bucket_of
from engine.runtime.graphs.round import BUILD
from engine.runtime.rigs.loops import HostLoop
from engine.runtime.target.passes import FusedPass
from engine.runtime.target.target import TorchTarget

LASTING = frozenset({"cuda"})  # devices on which setting up a machine takes longer than decoding a short text


def serves(request: Request, target: TorchTarget, drafters: Sequence[Drafter]) -> bool:
    """Whether CUDA-graph rounds can serve the request, with the result that ``decode`` would give."""
    row = method_named(request.method)
    return (row.follows_text and row.build in BUILD and request.pace == FIXED
            and isinstance(target.fastest, FusedPass) and target.device.type in RUNNERS
            and all(isinstance(unwrapped(drafter), BlockDrafter) for drafter in drafters[:row.drafter_count]))


class GraphLoop:
    """One target's CUDA-graph rounds, one run at a time; ``smallest`` is the smallest context bucket, in positions.

    The end of a run frees its caches. On a CUDA device the caches and graphs of the latest kind of request stay until a
    request of another kind comes or ``close`` is called.
    """

    def __init__(self, target: TorchTarget, smallest: int = SMALLEST_BUCKET) -> None:
        self.target, self.smallest = target, smallest
        self._kind: tuple[object, ...] = ()
        self._machine: Machine | None = None

    def decode(self, request: Request, drafters: Sequence[Drafter]) -> Generator[Round, None, None]:
        """The rounds of ``engine.decoding.loop.decode``, which also makes them where CUDA-graph rounds cannot."""
        work = plan(request, self.target, drafters)
        if not serves(request, self.target, drafters):
            return HostLoop(self.target).decode(request, drafters)
        return self._rounds(request, work.drafters)

    def close(self) -> None:
        """Free caches and graphs."""
        self._machine = None

    def _rounds(self, request: Request, drafters: Sequence[Drafter]) -> Generator[Round, None, None]:
        try:
            machine = self._machine_for(request, drafters)
            yield from machine.rounds(request, machine.open(request), self.smallest)
        finally:
            machine = None  # type: ignore[assignment]
            if self.target.device.type not in LASTING:
                self.close()

    def _machine_for(self, request: Request, drafters: Sequence[Drafter]) -> Machine:
        """The latest run's machine where it fits the request, else a new one; RequestError where memory is short."""
        kind = (replace(request, prompt_ids=(), max_tokens=0, sampling=replace(request.sampling, seed=0)),
                *map(id, drafters))
        limit = self.target.context_limit
        longest = bucket_of(min(len(request.prompt_ids) + request.max_tokens, limit), self.smallest)
        if self._machine is None or self._kind != kind or self._machine.longest < longest:
            self._machine = None
            try:
                self._machine = Machine(self.target, setting_of(request, limit), drafters, longest)
            except RuntimeError as error:  # torch's out-of-memory error is one too
                raise RequestError(f"Caches of {longest} positions do not fit into memory; lower max tokens or the "
                                   "node budget.") from error
            self._kind = kind
        return self._machine
