"""Compares budgets while several requests share their passes: the same for every request, each request's own pace, one
total divided among them, and plain decoding. All settings answer the same prompts, in turns of random order.

Only rounds with the full number of requests count; times are engine time without reading prompts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from engine.budget.auto import AutoBudget, DraftHistory, SharedRows
from engine.budget.cost import CostCurve
from engine.decoding.acceptance_length import mean_length
from engine.decoding.budget_policy import AUTO, FIXED, MOST_AUTO
from engine.decoding.together import BatchRequest, decode_together
from engine.errors import RequestError
from engine.records import STAGES, Ask, Round, Sampling
from engine.serving.live import LiveRig

PLAIN, OWN, SHARED = "plain", "auto, each its own", "auto, shared"
WARM_TOKENS = 12


@dataclass(frozen=True)
class TogetherBench:
    """What to measure: every method at every budget and at both automatic paces, against plain decoding."""

    asks: tuple[Ask, ...]
    methods: tuple[str, ...]
    budgets: tuple[int, ...]
    at_once: tuple[int, ...]
    repeats: int


@dataclass(frozen=True)
class Way:
    """A method at a budget (as a word), or at one of the automatic paces."""

    method: str
    budget: str

    @property
    def label(self) -> str:
        """The way's name in a table."""
        return self.method if self.budget == PLAIN else f"{self.method} {self.budget}"


@dataclass
class Throughput:
    """The sums over the full rounds of one run of a way."""

    tokens: int = 0
    trees: int = 0
    rounds: int = 0
    nodes: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    by_request: dict[int, tuple[int, float]] = field(default_factory=dict)  # tokens, and seconds that it was answered

    @property
    def rate(self) -> float:
        """Tokens per second of all requests together."""
        return self.tokens / sum(self.seconds.values())

    @property
    def rates(self) -> list[float]:
        """Tokens per second of each request, while it was answered."""
        return [tokens / seconds for tokens, seconds in self.by_request.values()]

    def add(self, together: Sequence[tuple[int, Round]]) -> None:
        """Count the rounds of one step."""
        seconds = together[0][1].seconds
        self.rounds, self.trees = self.rounds + 1, self.trees + len(together)
        for stage, lap in seconds.items():
            self.seconds[stage] += lap
        for number, made in together:
            kept, (tokens, spent) = len(made.acceptance.keep), self.by_request.get(number, (0, 0.0))
            self.by_request[number] = tokens + kept, spent + sum(seconds.values())
            self.tokens, self.nodes = self.tokens + kept, self.nodes + len(made.tree) - 1


Throughputs = Mapping[int, Mapping[Way, Sequence[Throughput]]]


def ways(bench: TogetherBench) -> list[Way]:
    """Plain decoding, then every method at every budget and pace."""
    return [Way("autoregressive", PLAIN), *(Way(method, budget) for method in bench.methods
                                            for budget in (*map(str, bench.budgets), OWN, SHARED))]


def together_results(live: LiveRig, bench: TogetherBench) -> dict[str, object]:
    """Measure all ways; the result is what --json prints."""
    loads = measured(live, bench)
    rows = [row_of(at_once, way, found) for at_once, each in loads.items() for way, found in each.items()]
    return {"hardware": live.hardware, "dtype": live.loaded.dtype, "torch": torch.__version__,
            "prompts": len(bench.asks), "repeats": bench.repeats, "together": rows,
            "verdicts": [verdict for at_once, each in loads.items() for verdict in verdicts(at_once, each)]}


def measured(live: LiveRig, bench: TogetherBench) -> Throughputs:
    """The throughput of each repeat of every way, by the number of requests at once, after each has warmed up."""
    found: dict[int, dict[Way, list[Throughput]]] = {
        at_once: {way: [] for way in ways(bench)} for at_once in bench.at_once}
    cells = [(at_once, way) for at_once in bench.at_once for way in ways(bench)]
    short = [replace(each, max_tokens=min(WARM_TOKENS, each.max_tokens)) for each in bench.asks]
    for at_once, way in cells:
        run(live, short[:at_once], at_once, way)
    order = random.Random(0)
    turns = [order.sample(cells, len(cells)) for _ in range(bench.repeats)]
    for at_once, way in tqdm(list(chain.from_iterable(turns)), unit="run"):
        found[at_once][way].append(run(live, bench.asks, at_once, way))
    return found


def run(live: LiveRig, asks: Sequence[Ask], at_once: int, way: Way) -> Throughput:
    """Answer all prompts one way, ``at_once`` of them at a time."""
    rig, curve = live.loaded, _curve(live, asks)
    fixed = int(way.budget) if way.budget.isdigit() else 0
    asked, history = [], DraftHistory()
    for ask in asks:
        budget, pace = (MOST_AUTO, AUTO) if way.budget in (OWN, SHARED) else (fixed, FIXED)
        request = live.request(replace(ask, method=way.method, budget=budget, pace=pace))
        policy = AutoBudget(curve, history) if pace == AUTO else None
        asked.append(BatchRequest(request, list(rig.drafters_for(way.method).values()), policy))
    with live.held(f"for {at_once} requests at once"), torch.inference_mode():
        allocator = SharedRows() if way.budget == SHARED else None
        load = tallied(decode_together(asked, rig.target, at_once, allocator), at_once)
    if not load.rounds:
        raise RequestError(f"No round had {at_once} requests at work: some of the {len(asks)} prompts are answered "
                           "with nothing; name more prompts than that.")
    return load


def _curve(live: LiveRig, asks: Sequence[Ask]) -> CostCurve:
    """The cost of one request's rounds at the middle of such texts."""
    middles = [len(live.request(ask).prompt_ids) + ask.max_tokens // 2 for ask in asks]
    return live.costs.curve(int(median(middles)), Sampling())


def tallied(made: Iterable[tuple[int, Round]], at_once: int) -> Throughput:
    """The full rounds of a run."""
    load = Throughput()
    for together in steps(made):
        if len(together) == at_once:
            load.add(together)
    return load


def steps(made: Iterable[tuple[int, Round]]) -> Iterator[list[tuple[int, Round]]]:
    """The rounds of many requests, grouped by the step that made them: those of one step share their seconds."""
    together: list[tuple[int, Round]] = []
    for pair in made:
        if together and pair[1].seconds is not together[0][1].seconds:
            yield together
            together = []
        together.append(pair)
    if together:
        yield together


def row_of(at_once: int, way: Way, loads: Sequence[Throughput]) -> dict[str, Any]:
    """One row of the table: medians over the repeats."""
    rates = [load.rate for load in loads]
    return {
        "together": at_once, "method": way.method, "budget": way.budget, "label": way.label,
        "tokens_per_second": round(median(rates), 1), "spread": [round(min(rates), 1), round(max(rates), 1)],
        "per_request": round(median(median(load.rates) for load in loads), 1),
        "slowest_request": round(median(min(load.rates) for load in loads), 1),
        "tau": round(mean_length(loads[0].tokens, loads[0].trees), 3),
        "nodes": round(median(load.nodes / load.trees for load in loads), 1),
        "ms": {stage: round(median(1e3 * load.seconds[stage] / load.rounds for load in loads), 3)
               for stage in STAGES}}


def verdicts(at_once: int, loads: Mapping[Way, Sequence[Throughput]]) -> list[dict[str, Any]]:
    """The shared budget compared with the best budget that is the same for all requests, with each request's own pace,
    and with plain decoding: medians and quartiles of the ratios within a repeat."""
    found = []
    for method in dict.fromkeys(way.method for way in loads if way.budget == SHARED):
        same = [way for way in loads if way.method == method and way.budget.isdigit()]
        best = max(same, key=lambda way: median(load.rate for load in loads[way]))
        shared = [load.rate for load in loads[Way(method, SHARED)]]
        for other in (best, Way(method, OWN), Way("autoregressive", PLAIN)):
            ratios = [one / load.rate for one, load in zip(shared, loads[other], strict=True)]
            found.append({"together": at_once, "method": method, "against": other.label,
                          "ratio": round(median(ratios), 3),
                          "quartiles": [round(float(each), 3) for each in np.percentile(ratios, (25, 75))]})
    return found


def together_table(result: Mapping[str, Any]) -> str:
    """The results of ``together_results`` as text to read; times in milliseconds per shared round."""
    lines = [f"{'at once':>7}  {'way':28}{'tok/s':>8}{'a request':>10}{'slowest':>9}{'tau':>7}{'nodes':>7}"
             + "".join(f"{stage:>8}" for stage in STAGES)]
    lines += [f"{row['together']:>7}  {row['label']:28}{row['tokens_per_second']:>8}{row['per_request']:>10}"
              f"{row['slowest_request']:>9}{row['tau']:>7}{row['nodes']:>7}"
              + "".join(f"{row['ms'][stage]:>8.2f}" for stage in STAGES) for row in result["together"]]
    lines += [f"{each['together']} at once, {each['method']} {SHARED}: {each['ratio']:.3f} times {each['against']} "
              f"(quartiles {each['quartiles'][0]:.3f} to {each['quartiles'][1]:.3f})" for each in result["verdicts"]]
    return "\n".join(lines)
