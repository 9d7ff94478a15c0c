"""Measures what a round costs at a model's full size with random weights: time by step against memory bandwidth.

    python -m engine bench --shape qwen3-8b --random

Random weights accept nothing, so the number of drafted tokens that a round accepts is FORCED (``--accepted``). Times
are real; tokens per second would mean nothing and are not shown. The floor is the time to read the weights of target
and drafter once per round, at the bandwidth that a copy reaches on the same device. The overhead is the time that a
round and its record take besides the passes, each of which is timed by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.errors import RequestError
from engine.records import Request, Sampling
from engine.runtime.graphs.machine import Machine, setting_of
from engine.runtime.graphs.passes import bucket_of
from engine.runtime.graphs.report import round_record
from engine.runtime.graphs.rows import PaddedRows
from engine.runtime.graphs.steps import STEPPERS
from engine.runtime.graphs.trees import PaddedTree
from engine.runtime.measure.plain import PlainLoop
from engine.runtime.measure.shapes import ModelShape, random_pair, shape_named
from engine.runtime.measure.timing import timed, timed_with
from engine.runtime.rigs.precision import DTYPES, USUAL
from engine.runtime.target.hardware import hardware
from engine.runtime.target.target import TorchTarget

FORWARDS = ("draft", "verify", "observe")  # steps that are a model's pass; the others are overhead
COPIED = 2**28  # bytes
LONG = 10**6  # tokens that a text has left: it never ends


@dataclass(frozen=True)
class ForcedDepth:
    """Accepts the path to the first node of depth ``accepted``, or to the deepest node, whatever the target chooses."""

    accepted: int

    def __call__(self, tree: PaddedTree, rows: PaddedRows, choice: Tensor) -> Tensor:
        """See ``graphs.round.Accept``."""
        return rows.depths <= self.accepted


class ForcedPlain(PlainLoop):
    """The plain loop with a forced number of accepted tokens."""

    def __init__(self, target: TorchTarget, drafter: DFlashDrafter, accepted: int) -> None:
        super().__init__(target, drafter)
        self.accepted = accepted

    def _walk(self, tokens: list[int], parents: list[int], choices: list[int]) -> list[int]:
        keep = [0]
        while keep[-1] in parents[keep[-1] + 1:] and len(keep) <= self.accepted:
            keep.append(parents.index(keep[-1], keep[-1] + 1))
        return keep


@dataclass(frozen=True)
class ShapeRequest:
    """What to measure: a shape of ``SHAPES``, node budgets, prefix length in tokens, drafted tokens that each round
    accepts, rounds per median, and the dtype's name."""

    shape: str
    budgets: Sequence[int]
    context: int
    accepted: int
    rounds: int
    dtype: str


@dataclass(frozen=True)
class Trial:
    """What is being measured: target and drafter, rounds per median, prefix length and forced acceptance."""

    target: TorchTarget
    drafter: DFlashDrafter
    rounds: int
    context: int
    accepted: int

    def machine(self, method: str, budget: int) -> Machine:
        """A machine whose text has the prefix length."""
        tokens = tuple(token % 251 for token in range(self.context))
        request = Request(tokens, method=method, budget=budget, max_tokens=LONG, sampling=Sampling())
        setting = setting_of(request, self.target.context_limit)
        drafters = [self.drafter] * setting.method.drafter_count
        made = Machine(self.target, setting, drafters, bucket_of(self.context) * 2, ForcedDepth(self.accepted))
        made.open(request)
        return made


@torch.inference_mode()
def round_ms(machine: Machine, trial: Trial) -> tuple[float, float]:
    """Milliseconds of a round up to its buffer on the host, and of making the record from the buffer."""
    state, bucket = machine.round.board.state, bucket_of(trial.context)
    before = state.clone()

    def once() -> object:
        state.copy_(before)
        return machine.runner.run(bucket)

    whole = timed(once, trial.rounds)
    buffer = machine.runner.run(bucket)[0]
    limit = machine.setting.context_limit
    return whole, timed(lambda: round_record(machine.report.arrays(buffer), 0, limit, {}), trial.rounds)


@torch.inference_mode()
def plain_ms(trial: Trial, budget: int) -> float:
    """Milliseconds of a round of the plain loop, each after the same prefix."""
    loop = ForcedPlain(trial.target, trial.drafter, trial.accepted)
    request = Request(tuple(token % 251 for token in range(trial.context)), method="ddtree", budget=budget,
                      max_tokens=LONG)
    state = loop.open(request)
    next(loop.rounds(request, state))  # in the first round the drafter reads the prompt, which is not measured

    def again() -> Iterator[list[int]]:
        copy = deepcopy(state)
        loop.wait()
        return loop.rounds(request, copy)

    return timed_with(again, next, trial.rounds)


def bandwidth(device: torch.device) -> float:
    """Bytes per second that a copy moves, reads and writes both counted."""
    source = torch.ones(COPIED, dtype=torch.uint8, device=device)
    into = torch.empty_like(source)

    def copy() -> None:
        into.copy_(source)
        into[-1].item()  # waits until it is done

    return 2 * COPIED / (timed(copy, 9) / 1e3)


def weight_bytes(trial: Trial) -> tuple[int, int]:
    """Bytes of weights that the target's pass reads, and the drafter's, which includes the output head. Of an embedding
    that is not also the output head, only single rows are read."""
    model, drafter = trial.target.model, trial.drafter
    output = trial.target.head.weight
    whole = sum(value.nbytes for value in model.parameters())
    embedding = trial.target.embedding.weight
    read = whole - (0 if embedding.data_ptr() == output.data_ptr() else int(embedding.nbytes))
    return read, sum(value.nbytes for value in drafter.model.parameters()) + int(output.nbytes)


def prefix_bytes(trial: Trial) -> tuple[int, int]:
    """Bytes of keys and values of the prefix that the target's pass reads, and the drafter's."""
    item = trial.target.model.dtype.itemsize
    found = []
    for config in (trial.target.config, trial.drafter.model.config):
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        found.append(2 * config.num_hidden_layers * config.num_key_value_heads * size * trial.context * item)
    return found[0], found[1]


def point(trial: Trial, budget: int, step_ms: float, rate: float) -> dict[str, object]:
    """The results of one budget."""
    machine = trial.machine("ddtree", budget)
    whole, record = round_ms(machine, trial)
    steps = STEPPERS[trial.target.device.type](machine.round, bucket_of(trial.context)).measured(trial.rounds)
    depth = len(machine.round.board.kept.keep) - 1
    size = int(machine.round.board.tree.size)
    accepted = min(trial.accepted, int(machine.round.board.rows.depths.max()))
    del machine
    floor = 1e3 * sum(weight_bytes(trial)) / rate
    plain = plain_ms(trial, budget)
    return {
        "budget": budget, "nodes": size - 1, "deepest_possible": depth, "accepted_forced": accepted,
        "ms_per_round": round(whole, 3), "steps_ms": {name: round(ms, 4) for name, ms in steps.items()},
        "overhead_share": round(1 - sum(steps[name] for name in FORWARDS) / (whole + record), 4),
        "record_ms": round(record, 4), "bytes_read": sum(weight_bytes(trial)) + sum(prefix_bytes(trial)),
        "floor_ms": round(floor, 4), "floor_share": round(floor / whole, 4),
        "autoregressive_steps": round(whole / step_ms, 3), "plain_ms": round(plain, 3),
        "times_plain": round(plain / whole, 3)}


def table(rows: Sequence[dict[str, object]]) -> str:
    """The rows as a table to read, times in milliseconds."""
    names = ["budget", "nodes", "ms_per_round", "overhead_share", "floor_ms", "floor_share", "autoregressive_steps",
             "plain_ms", "times_plain"]
    titles = ["budget", "nodes", "ms/round", "overhead", "floor ms", "its share", "AR steps", "plain ms", "x plain"]
    lines = ["".join(f"{title:>10}" for title in titles)]
    lines += ["".join(f"{row[name]:>10}" for name in names) for row in rows]
    for row in rows:
        steps = ", ".join(f"{name} {ms}" for name, ms in row["steps_ms"].items())  # type: ignore[attr-defined]
        lines.append(f"budget {row['budget']}, ms by step: {steps}")
    return "\n".join(lines)


def must_fit_after(shape: ModelShape, context: int) -> None:
    """RequestError where no whole block fits after a prefix of ``context`` tokens."""
    most = int(shape.target["max_position_embeddings"]) - shape.block
    if not 1 <= context <= most:
        raise RequestError(f"The prefix has {context} tokens; this shape takes from 1 to {most}.")


def shape_results(choice: ShapeRequest) -> dict[str, object]:
    """Measure every budget; the result is what --json prints."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = shape_named(choice.shape)
    must_fit_after(shape, choice.context)
    pair = random_pair(shape, DTYPES.get(choice.dtype, DTYPES[USUAL]), device)
    trial = Trial(*pair, choice.rounds, choice.context, choice.accepted)
    step_ms, _ = round_ms(trial.machine("autoregressive", 0), trial)
    rate = bandwidth(device)
    rows = [point(trial, budget, step_ms, rate) for budget in choice.budgets]
    floor_ms = 1e3 * weight_bytes(trial)[0] / rate
    return {
        "shape": choice.shape, "weights": "random", "acceptance": "forced", "accepted_forced": choice.accepted,
        "context": choice.context, "hardware": hardware(device), "dtype": choice.dtype, "torch": torch.__version__,
        "rounds": choice.rounds, "autoregressive_ms": round(step_ms, 4), "autoregressive_floor_ms": round(floor_ms, 4),
        "bytes_per_second": round(rate), "points": rows}


def shape_table(result: dict[str, Any]) -> str:
    """The results of ``shape_results`` as text to read."""
    return (f"{result['shape']}, random weights, acceptance forced at {result['accepted_forced']}, on "
            f"{result['hardware']}: one autoregressive step {result['autoregressive_ms']:.2f} ms (floor "
            f"{result['autoregressive_floor_ms']:.2f}), a copy moves {result['bytes_per_second'] / 1e9:.1f} GB/s\n"
            + table(result["points"]))
