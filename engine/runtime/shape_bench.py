"""What a round costs at a model's full size, whatever its weights: time by step against the memory's bandwidth.

    python -m engine.bench --shape qwen3-8b --random

Weights are random, and random weights accept nothing: how many drafted tokens a round accepts is FORCED
(``--accepted``), so times are real, and tokens per second would mean nothing and are not shown. The floor is the time
to read the weights of target and head once per round, at the bandwidth that a copy reaches on the same device. The
overhead is what a round and its record take besides the passes, each timed by itself.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.drafters.dflash import DFlashDrafter
from engine.errors import CanopyError, RequestError
from engine.records import Request, Sampling
from engine.runtime.fixed.machine import Machine, setting_of
from engine.runtime.fixed.passes import extent_of
from engine.runtime.fixed.report import spelt
from engine.runtime.fixed.rows import FixedRows
from engine.runtime.fixed.steps import STEPPERS
from engine.runtime.fixed.trees import FixedTree
from engine.runtime.hardware import hardware
from engine.runtime.plain import PlainLoop
from engine.runtime.rigs import DTYPES
from engine.runtime.shapes import SHAPES, Shape, random_pair, shape_named
from engine.runtime.target import TorchTarget
from engine.runtime.timing import timed, timed_with

FORWARDS = ("draft", "verify", "observe")  # steps that are a model's pass; the others are overhead
COPIED = 2**28  # bytes
LONG = 10**6  # tokens that a text has left: it never ends


@dataclass(frozen=True)
class ForcedDepth:
    """Accepts the first node of depth ``accepted``, or of the deepest there is, whatever the target says."""

    accepted: int

    def __call__(self, tree: FixedTree, rows: FixedRows, choice: Tensor) -> Tensor:
        """See ``fixed.round.Accept``."""
        return rows.depths <= self.accepted


class ForcedPlain(PlainLoop):
    """The plain loop with as many tokens accepted."""

    def __init__(self, target: TorchTarget, drafter: DFlashDrafter, accepted: int) -> None:
        super().__init__(target, drafter)
        self.accepted = accepted

    def _walk(self, tokens: list[int], parents: list[int], choices: list[int]) -> list[int]:
        keep = [0]
        while keep[-1] in parents[keep[-1] + 1:] and len(keep) <= self.accepted:
            keep.append(parents.index(keep[-1], keep[-1] + 1))
        return keep


@dataclass(frozen=True)
class Trial:
    """What is measured: a pair, rounds per median, prefix length and forced acceptance."""

    target: TorchTarget
    drafter: DFlashDrafter
    rounds: int
    context: int
    accepted: int

    def machine(self, method: str, budget: int) -> Machine:
        """A machine whose text stands at the prefix length."""
        tokens = tuple(token % 251 for token in range(self.context))
        request = Request(tokens, method, budget, LONG, Sampling())
        setting = setting_of(request, self.target.context_limit)
        heads = [self.drafter] * setting.method.heads
        made = Machine(self.target, setting, heads, extent_of(self.context) * 2, ForcedDepth(self.accepted))
        made.open(request)
        return made


@torch.inference_mode()
def round_ms(machine: Machine, trial: Trial) -> tuple[float, float]:
    """Milliseconds of a round up to its buffer on the host, and of spelling the buffer out as a record."""
    state, extent = machine.round.board.state, extent_of(trial.context)
    before = state.clone()

    def once() -> object:
        state.copy_(before)
        return machine.runner.run(extent)

    whole = timed(once, trial.rounds)
    buffer = machine.runner.run(extent)[0]
    limit = machine.setting.context_limit
    return whole, timed(lambda: spelt(machine.report.arrays(buffer), 0, limit, {}), trial.rounds)


@torch.inference_mode()
def plain_ms(trial: Trial, budget: int) -> float:
    """Milliseconds of a round of the plain loop, each behind the same prefix."""
    loop = ForcedPlain(trial.target, trial.drafter, trial.accepted)
    request = Request(tuple(token % 251 for token in range(trial.context)), "ddtree", budget, LONG)
    state = loop.open(request)
    next(loop.rounds(request, state))  # the head reads the prompt in the first: not what is measured

    def again() -> Iterator[list[int]]:
        copy = deepcopy(state)
        loop.wait()
        return loop.rounds(request, copy)

    return timed_with(again, next, trial.rounds)


def bandwidth(device: torch.device) -> float:
    """Bytes a second that a copy moves, read and written."""
    source = torch.ones(COPIED, dtype=torch.uint8, device=device)
    into = torch.empty_like(source)

    def copy() -> None:
        into.copy_(source)
        into[-1].item()  # waits until it is done

    return 2 * COPIED / (timed(copy, 9) / 1e3)


def weight_bytes(trial: Trial) -> tuple[int, int]:
    """Bytes of weights that the target's pass reads, and the head's with its use of the output head. Of an embedding
    that is not the output head too, only single rows are read."""
    model, drafter = trial.target.model, trial.drafter
    head = trial.target.head.weight
    whole = sum(value.nbytes for value in model.parameters())
    embedding = trial.target.embedding.weight
    read = whole - (0 if embedding.data_ptr() == head.data_ptr() else int(embedding.nbytes))
    return read, sum(value.nbytes for value in drafter.model.parameters()) + int(head.nbytes)


def prefix_bytes(trial: Trial) -> tuple[int, int]:
    """Bytes of keys and values of the prefix that the target's pass reads, and the head's."""
    item = trial.target.model.dtype.itemsize
    found = []
    for config in (trial.target.config, trial.drafter.model.config):
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        found.append(2 * config.num_hidden_layers * config.num_key_value_heads * size * trial.context * item)
    return found[0], found[1]


def point(trial: Trial, budget: int, step_ms: float, rate: float) -> dict[str, object]:
    """One budget's row."""
    machine = trial.machine("ddtree", budget)
    whole, record = round_ms(machine, trial)
    steps = STEPPERS[trial.target.device.type](machine.round, extent_of(trial.context)).measured(trial.rounds)
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
    """The rows for people, times in milliseconds."""
    names = ["budget", "nodes", "ms_per_round", "overhead_share", "floor_ms", "floor_share", "autoregressive_steps",
             "plain_ms", "times_plain"]
    titles = ["budget", "nodes", "ms/round", "overhead", "floor ms", "its share", "AR steps", "plain ms", "x plain"]
    lines = ["".join(f"{title:>10}" for title in titles)]
    lines += ["".join(f"{row[name]:>10}" for name in names) for row in rows]
    for row in rows:
        steps = ", ".join(f"{name} {ms}" for name, ms in row["steps_ms"].items())  # type: ignore[attr-defined]
        lines.append(f"budget {row['budget']}, ms by step: {steps}")
    return "\n".join(lines)


def must_fit_behind(shape: Shape, context: int) -> None:
    """RequestError where no whole block fits behind a prefix of ``context`` tokens."""
    most = int(shape.target["max_position_embeddings"]) - shape.block
    if not 1 <= context <= most:
        raise RequestError(f"The prefix has {context} tokens; this shape takes from 1 to {most}.")


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", required=True, help=f"one of {', '.join(SHAPES)}")
    parser.add_argument("--random", action="store_true", required=True, help="random weights: nothing is downloaded")
    parser.add_argument("--budgets", nargs="+", type=int, default=[8, 16, 32, 64, 128, 256, 512])
    parser.add_argument("--context", type=int, default=512, help="tokens of prefix")
    parser.add_argument("--accepted", type=int, default=6, help="drafted tokens that each round accepts, forced")
    parser.add_argument("--rounds", type=int, default=20, help="rounds per median")
    parser.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")
    return parser.parse_args(given)


def main(given: Sequence[str]) -> int:
    """Measure and print."""
    choice = arguments(given)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        shape = shape_named(choice.shape)
        must_fit_behind(shape, choice.context)
        pair = random_pair(shape, DTYPES[choice.dtype], device)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    trial = Trial(*pair, choice.rounds, choice.context, choice.accepted)
    step_ms, _ = round_ms(trial.machine("autoregressive", 0), trial)
    rate = bandwidth(device)
    rows = [point(trial, budget, step_ms, rate) for budget in choice.budgets]
    floor_ms = 1e3 * weight_bytes(trial)[0] / rate
    print(f"{choice.shape}, random weights, acceptance forced at {choice.accepted}, on {hardware(device)}: one "
          f"autoregressive step {step_ms:.2f} ms (floor {floor_ms:.2f}), a copy moves {rate / 1e9:.1f} GB/s")
    print(table(rows))
    print(json.dumps({
        "shape": choice.shape, "weights": "random", "acceptance": "forced", "accepted_forced": choice.accepted,
        "context": choice.context, "hardware": hardware(device), "dtype": choice.dtype, "torch": torch.__version__,
        "rounds": choice.rounds, "autoregressive_ms": round(step_ms, 4), "autoregressive_floor_ms": round(floor_ms, 4),
        "bytes_per_second": round(rate), "points": rows}))
    return 0
