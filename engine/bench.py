"""How fast, and where the time goes: methods × budgets on a prompt file, interleaved, medians over repeats.

    python -m engine.bench --methods autoregressive dflash ddtree plain --budgets 16 32 64 --prompts FILE.jsonl

``plain`` is DDTree the way the paper's reference runs it (``engine/runtime/plain.py``), in the same process. Times
are engine time without the prefill. ``forward`` is the part of ``verify`` spent inside the target's own forward
pass; ``overhead`` is everything that is neither it nor the drafter. A table for people, then one JSON line.

    python -m engine.bench --shape qwen3-8b --random

measures rounds of fixed shape on random weights of a published size instead; see ``--shape qwen3-8b --help``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from engine.drafters.dflash import DFlashDrafter
from engine.errors import CanopyError, RequestError
from engine.methods import METHODS
from engine.outcome import Outcome, outcome
from engine.prompts import Prompt, read_prompts
from engine.records import STAGES, Ask
from engine.runtime import shape_bench
from engine.runtime.fixed.decode import loop_on
from engine.runtime.live import LiveRig
from engine.runtime.plain import PlainLoop
from engine.runtime.rigs import DTYPES, Rig, open_rig
from engine.trace import Entry

PLAIN = "plain"


@dataclass(frozen=True)
class Point:
    """One setting to measure; ``watched`` runs carry text pieces and keep every round, as the page does. The statistics
    of kept rounds are made when they are shown or written, so not here."""

    method: str
    budget: int
    split: str = "total"
    watched: str = "off"


@dataclass
class Tally:
    """What one repeat of one point adds up to."""

    tokens: int = 0
    rounds: int = 0
    seconds: float = 0.0
    forward_seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def add(self, found: Outcome) -> None:
        """Count a finished run."""
        self.tokens += len(found.token_ids)
        self.rounds += len(found.lengths)
        self.seconds += found.seconds
        for stage, seconds in found.stage_seconds.items():
            self.stages[stage] += seconds


class ForwardClock:
    """A module's forward pass, and the seconds inside it, summed. On the CPU the call is the work. (Hooks would do, but
    a module with hooks takes a tenth of a percent of a round longer to be called.)"""

    def __init__(self, module: nn.Module) -> None:
        self.seconds = 0.0
        self._forward = module.forward
        module.forward = self._timed  # type: ignore[method-assign]

    def _timed(self, *inputs: Any) -> Any:
        began = perf_counter()
        found = self._forward(*inputs)
        self.seconds += perf_counter() - began
        return found


class Bench:
    """A rig and the clock around its target."""

    def __init__(self, rig: Rig, max_tokens: int, heads: Sequence[str]) -> None:
        self.rig, self.live, self.max_tokens = rig, LiveRig(rig), max_tokens
        self.heads = tuple(heads)
        self.clock, self.loop = ForwardClock(rig.target.fastest), loop_on(rig.target)

    def measure(self, point: Point, prompts: Sequence[Prompt]) -> Tally:
        """One pass of a point over the prompts."""
        tally = Tally()
        for prompt in prompts:
            ask = Ask(prompt.text, point.method, point.budget, self.max_tokens, split=point.split,
                      heads=self._heads(point.method))
            self.clock.seconds = 0.0
            tally.add(self._run(ask, point))
            tally.forward_seconds += self.clock.seconds
        return tally

    def _heads(self, method: str) -> tuple[str, ...]:
        """The heads asked for where the method drafts with so many, else the rig's own choice."""
        wanted = 1 if method == PLAIN else METHODS[method].heads
        return self.heads if len(self.heads) == wanted else ()

    def _run(self, ask: Ask, point: Point) -> Outcome:
        if ask.method == PLAIN:
            return self._plain(ask)
        if point.watched == "on":
            kept: list[object] = []
            return outcome(self._rounds(self.live.run(ask), kept))
        drafters = self.rig.drafters(ask.method, ask.heads)
        return outcome(self.loop.decode(self.live.request(ask), list(drafters.values())))

    def _rounds(self, lines: Iterator, kept: list[object]) -> Iterator:  # type: ignore[type-arg]
        for line in lines:
            kept.append(line)
            if isinstance(line, Entry):
                yield line.round

    def _plain(self, ask: Ask) -> Outcome:
        request = self.live.request(Ask(ask.prompt, "ddtree", ask.budget, ask.max_tokens))
        ((name, drafter),) = self.rig.drafters("ddtree", ask.heads).items()
        if not isinstance(drafter, DFlashDrafter):
            raise RequestError(f"The plain loop drafts with a block-diffusion head; {name} is none.")
        loop = PlainLoop(self.rig.target, drafter)
        state = loop.open(request)
        began = perf_counter()
        rounds = list(loop.rounds(request, state))
        seconds = perf_counter() - began
        token_ids = tuple(token for tokens in rounds for token in tokens)
        return Outcome(token_ids, tuple(map(len, rounds)), seconds, dict.fromkeys(STAGES, 0.0), -1)


def report(point: Point, tallies: Sequence[Tally]) -> dict[str, object]:
    """Medians over the repeats of a point."""
    rates = [tally.tokens / tally.seconds for tally in tallies]
    first = tallies[0]
    per_round = {stage: median(1e3 * tally.stages[stage] / tally.rounds for tally in tallies) for stage in STAGES}
    inside = [tally.forward_seconds + tally.stages["draft"] for tally in tallies]
    known = sum(per_round.values()) > 0 and first.forward_seconds > 0  # a captured round is one piece
    return {
        "method": point.method, "budget": point.budget, "split": point.split, "recording": point.watched,
        "tau": round(first.tokens / first.rounds, 3), "tokens": first.tokens,
        "tokens_per_second": round(median(rates), 1), "spread": [round(min(rates), 1), round(max(rates), 1)],
        "ms_per_round": round(median(1e3 * tally.seconds / tally.rounds for tally in tallies), 3),
        "ms": {stage: round(value, 3) for stage, value in per_round.items()} if known else None,
        "forward_ms": round(median(1e3 * tally.forward_seconds / tally.rounds for tally in tallies), 3),
        "overhead_share": round(median(1 - part / tally.seconds for part, tally in zip(
            inside, tallies, strict=True)), 4) if known else None}


def points(choice: argparse.Namespace) -> list[Point]:
    """The settings of a command line; the baseline has no budget."""
    found = []
    for method in choice.methods:
        if method != PLAIN and method not in METHODS:
            raise CanopyError(f"There is no method {method!r}; choose among {', '.join([*METHODS, PLAIN])}.")
        drafts = method == PLAIN or METHODS[method].heads > 0
        for budget in choice.budgets if drafts else [0]:
            found += [Point(method, budget, choice.split, watched) for watched in choice.recording]
    return found


def table(rows: Sequence[dict[str, object]]) -> str:
    """The rows for people."""
    lines = [f"{'method':15}{'budget':>7}{'rec':>5}{'tau':>7}{'tok/s':>9}{'ms/round':>10}{'forward':>9}"
             f"{'overhead':>10}"]
    for row in rows:
        share = "" if row["overhead_share"] is None else f"{100 * float(str(row['overhead_share'])):.1f} %"
        lines.append(f"{row['method']:15}{row['budget']:>7}{row['recording']:>5}{row['tau']:>7}"
                     f"{row['tokens_per_second']:>9}{row['ms_per_round']:>10}{row['forward_ms']:>9}{share:>10}")
    return "\n".join(lines)


def interleaved(bench: Bench, wanted: Sequence[Point], prompts: Sequence[Prompt], repeats: int) -> dict[
        Point, list[Tally]]:
    """The tallies of every point, after one prompt each to warm up; points in a new order each repeat, so that drift
    favours nobody."""
    for point in wanted:
        bench.measure(point, prompts[:1])
    tallies: dict[Point, list[Tally]] = {point: [] for point in wanted}
    order = random.Random(0)
    with tqdm(total=repeats * len(wanted)) as bar:
        for _ in range(repeats):
            for point in order.sample(wanted, len(wanted)):
                tallies[point].append(bench.measure(point, prompts))
                bar.update()
    return tallies


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="demo")
    parser.add_argument("--methods", nargs="+", default=["autoregressive", "dflash", "ddtree", PLAIN])
    parser.add_argument("--budgets", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--split", default="total")
    parser.add_argument("--heads", nargs="+", default=[], help="drafters for the methods that take so many")
    parser.add_argument("--domain", help="only the prompts of this domain")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=8, help="use the first so many prompts")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")
    parser.add_argument("--recording", nargs="+", choices=["off", "on"], default=["off"])
    return parser.parse_args()


def main() -> int:
    """Measure and print."""
    if "--shape" in sys.argv[1:]:
        return shape_bench.main(sys.argv[1:])
    choice = arguments()
    try:
        rig = open_rig(choice.rig, choice.dtype)
        prompts = [prompt for prompt in read_prompts(choice.prompts) if choice.domain in (None, prompt.domain)]
        prompts = prompts[:choice.limit]
        if not prompts:
            raise CanopyError(f"{choice.prompts.name} has no prompt of the domain {choice.domain!r}.")
        wanted = points(choice)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    tallies = interleaved(Bench(rig, choice.max_tokens, choice.heads), wanted, prompts, choice.repeats)
    rows = [report(point, tallies[point]) for point in wanted]
    print(table(rows))
    print(json.dumps({
        "hardware": rig.target.hardware, "dtype": choice.dtype, "torch": torch.__version__,
        "prompts": len(prompts), "heads": choice.heads, "domain": choice.domain, "repeats": choice.repeats,
        "points": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
