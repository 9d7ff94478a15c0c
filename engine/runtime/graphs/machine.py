"""All that CUDA-graph rounds need for requests of one kind: caches, the round, and what runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from engine.decoding.draws import position_draws
from engine.drafters.abilities import BlockDrafter
from engine.drafters.narrowed import NarrowedDrafter
from engine.errors import RequestError
from engine.methods import method_named, share_named
from engine.records import Request, Round
from engine.runtime.graphs.eager import EagerRunner, Runner
from engine.runtime.graphs.graphs import GraphRunner
from engine.runtime.graphs.passes import GraphDrafter, GraphTarget, bucket_of
from engine.runtime.graphs.report import Report, round_record
from engine.runtime.graphs.round import Accept, GraphRound, RoundSetting, agreed
from engine.runtime.target.sampling import chosen
from engine.runtime.target.target import TorchTarget

RUNNERS: Mapping[str, type[EagerRunner] | type[GraphRunner]] = MappingProxyType(
    {"cpu": EagerRunner, "cuda": GraphRunner})


def unwrapped(drafter: object) -> object:
    """The drafter itself, without a wrapper that only selects its feature columns."""
    return drafter.inside if isinstance(drafter, NarrowedDrafter) else drafter


def setting_of(request: Request, context_limit: int) -> RoundSetting:
    """What a round for this request is made for; RequestError for an unknown method or split."""
    row = method_named(request.method)
    shares = share_named(row, request.split)(request.budget, row.drafter_count)
    return RoundSetting(row, request.budget, shares, request.sampling, tuple(sorted(request.stop_ids)), context_limit)


class Machine:
    """Serves requests that differ in prompt, maximum length and seed only, for texts of up to ``longest`` positions.

    RequestError where a drafter is not a block-diffusion drafter.
    """

    def __init__(self, target: TorchTarget, setting: RoundSetting, drafters: Sequence[object], longest: int,
                 accept: Accept = agreed) -> None:
        self.target, self.setting, self.longest = target, setting, longest
        rows = 1 + sum(setting.shares)
        fused: Any = target.fastest  # a FusedPass: ``decode.serves`` admits no other
        self.cache = GraphTarget(fused, target.config, longest, rows)
        self.drafters = [_graph_drafter(drafter, longest, rows) for drafter in drafters]
        self.round = GraphRound(setting, self.cache, self.drafters, accept)
        self.report = Report()
        self.runner: Runner = RUNNERS[target.device.type](self.round, self.report)

    @torch.inference_mode()
    def open(self, request: Request) -> int:
        """Read the prompt with target and drafters, and return the first root's token."""
        board, size = self.round.board, len(request.prompt_ids)
        draws = position_draws(request.sampling.seed, self.setting.context_limit + 1)
        tokens = torch.tensor(request.prompt_ids, device=self.target.device)
        self.cache.cache.length = 0
        said = self.target.reference.prefill(tokens, self.cache.cache)
        root = int(chosen(said.logits, request.sampling, draws[[size]])[0])
        for drafter in self.drafters:
            drafter.observe(said.tapped, torch.arange(size, device=tokens.device))
        board.draws.copy_(torch.from_numpy(draws))
        board.state.copy_(torch.tensor([size, root, request.max_tokens]))
        return root

    def rounds(self, request: Request, root: int, smallest: int) -> Iterator[Round]:
        """The rounds after ``open``, beginning at its root; ``smallest`` is the smallest context bucket."""
        start, left, index = len(request.prompt_ids), request.max_tokens, 0
        while left > 0 and root not in request.stop_ids and start < self.setting.context_limit:
            made = self._round(index, bucket_of(start, smallest))
            start += len(made.acceptance.keep)
            left -= len(made.acceptance.keep)
            root, index = made.acceptance.bonus, index + 1
            yield made

    @torch.inference_mode()
    def _round(self, index: int, bucket: int) -> Round:
        buffer, seconds = self.runner.run(bucket)
        return round_record(self.report.arrays(buffer), index, self.setting.context_limit, seconds)


def _graph_drafter(drafter: object, longest: int, rows: int) -> GraphDrafter:
    whole = unwrapped(drafter)
    if not isinstance(whole, BlockDrafter):
        raise RequestError("CUDA-graph rounds draft with block-diffusion drafters; another kind was given.")
    columns = drafter.columns if isinstance(drafter, NarrowedDrafter) else None
    return GraphDrafter(whole, columns, longest, rows)
