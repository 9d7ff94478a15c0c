"""A round as one CUDA graph per context bucket. Nothing in this file has run on a GPU yet; see ``engine/LOG.md``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from time import perf_counter
from typing import Generic, TypeVar

import torch
from torch import Tensor

from engine.records import STAGES, Integers
from engine.runtime.checkpoints.files import first_line
from engine.runtime.graphs.eager import EagerRunner
from engine.runtime.graphs.report import Report
from engine.runtime.graphs.round import GraphRound
from engine.runtime.target.layers import Experts
from engine.runtime.target.passes import FusedPass

Result = TypeVar("Result")
HOPPER = (9, 0)
WARM_UPS = 3  # in their first calls libraries choose kernels and allocate workspaces, which a capture must not do


class Graph(Generic[Result]):
    """A captured call: what it reads and writes stays at the same addresses.

    ``work`` may change ``state`` and nothing else that its next run depends on; warming up leaves ``state`` as it was.
    """

    def __init__(self, work: Callable[[], Result], state: Tensor, pool: tuple[int, int]) -> None:
        before = state.clone()
        side = torch.cuda.Stream(state.device)
        side.wait_stream(torch.cuda.current_stream(state.device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                work()
                state.copy_(before)
        torch.cuda.current_stream(state.device).wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        # a capture that fails leaves its stream and device current, so restore them; other threads may go on using CUDA
        with torch.cuda.stream(torch.cuda.current_stream(state.device)), torch.cuda.graph(
                self._graph, pool=pool,  # type: ignore[arg-type]  # torch's name for the pair is private
                stream=side, capture_error_mode="thread_local"):
            self.result = work()

    def replay(self) -> Result:
        """Run the call again and return its result, which the next replay overwrites."""
        self._graph.replay()
        return self.result


class GraphRunner:
    """Runs rounds as graphs, one per context bucket, captured when a text first reaches it; all share one memory pool.
    Once a round cannot be captured, all later rounds run eagerly, and a warning says so."""

    def __init__(self, work: GraphRound, report: Report) -> None:
        self.work, self.report, self.eager = work, report, EagerRunner(work, report)
        self._graphs: dict[int, Graph[Tensor]] = {}
        self._pool: tuple[int, int] | None = None
        self._capturing = True
        self._host = torch.empty(0)

    def run(self, bucket: int) -> tuple[Integers, Mapping[str, float]]:
        """See ``eager.Runner``. The whole round is one stage, ``other``; no round's time includes a capture."""
        if bucket not in self._graphs and self._capturing:
            self._capture(bucket)
        if bucket not in self._graphs:
            return self.eager.run(bucket)
        began = perf_counter()
        found = self._graphs[bucket].replay()
        if self._host.shape != found.shape:
            self._host = torch.empty_like(found, device="cpu").pin_memory()
        self._host.copy_(found, non_blocking=True)
        torch.cuda.current_stream(found.device).synchronize()
        seconds = dict.fromkeys(STAGES, 0.0)
        return self._host.numpy().copy(), {**seconds, "other": perf_counter() - began}

    def _capture(self, bucket: int) -> None:
        state = self.work.board.state
        before = state.clone()
        try:
            must_be_capturable(self.work.target.fused)
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._graphs[bucket] = Graph(lambda: self._once(bucket), state, self._pool)
        except torch.OutOfMemoryError:  # another text, or a smaller budget, may still be captured
            state.copy_(before)
            raise
        except RuntimeError as error:
            state.copy_(before)
            self._capturing = False  # a failed capture leaves a pool that no other capture can use
            cause = first_line(error.__context__ or error)
            warnings.warn(f"A round could not be captured as a graph, so rounds run slower: {cause}.", stacklevel=2)

    def _once(self, bucket: int) -> Tensor:
        self.work.run(bucket)
        return self.report.buffer(self.work.board)


def must_be_capturable(fused: FusedPass) -> None:
    """RuntimeError where a pass would read numbers from the device: transformers' loop over experts always does, and
    grouped experts do except in bfloat16 on a Hopper GPU or later."""
    if not any(isinstance(layer.mlp, Experts) for layer in fused.layers):
        return
    weight = fused.base.embed_tokens.weight
    grouped = getattr(fused.base.config, "_experts_implementation", "") == "grouped_mm"
    if not (grouped and weight.dtype == torch.bfloat16 and torch.cuda.get_device_capability(weight.device) >= HOPPER):
        raise RuntimeError("the host chooses its experts")


class GraphSteps:
    """Times each step as a graph of its own, by events on the device; see ``steps.HostSteps``."""

    @torch.inference_mode()
    def __init__(self, work: GraphRound, bucket: int) -> None:
        self.state, self.names = work.board.state, [step.__name__ for _, step in work.steps]
        before, pool = self.state.clone(), torch.cuda.graph_pool_handle()
        self._graphs: list[Graph[None]] = []
        for _, step in work.steps:
            self._graphs.append(Graph(partial(step, bucket), self.state, pool))
            self._graphs[-1].replay()  # the next step warms up on this one's results
        self.state.copy_(before)

    @torch.inference_mode()
    def measured(self, rounds: int) -> dict[str, float]:
        """See ``steps.HostSteps``."""
        before = self.state.clone()
        spent: dict[str, list[float]] = {name: [] for name in self.names}
        for _ in range(rounds):
            self.state.copy_(before)
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(self.names) + 1)]
            marks[0].record()
            for graph, mark in zip(self._graphs, marks[1:], strict=True):
                graph.replay()
                mark.record()
            marks[-1].synchronize()
            for name, began, ended in zip(self.names, marks[:-1], marks[1:], strict=True):
                spent[name].append(began.elapsed_time(ended))
        self.state.copy_(before)
        return {name: median(values) for name, values in spent.items()}
