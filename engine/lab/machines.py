"""Predicts the cost of a round of one request in bfloat16 on another machine, from published figures.

The *floor* is a roofline: max(bytes ÷ bandwidth, operations ÷ peak). The *published loop* is max(floor, host time). The
host time is ms per layer × layers of target and drafter + a constant fitted on Qwen3-4B + ms per tree node. These
figures are labelled predicted, and never share an axis with measured ones.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from engine.budget.auto import RANK_STEPS
from engine.budget.cost import CostCurve
from engine.requests.rig_names import RIGS_FOLDER

FLOOR, LOOP = "floor", "published loop"
ESTIMATES = (FLOOR, LOOP)
BFLOAT16_BYTES = 2
FITTED = "qwen3-4b"
PUBLISHED_MODEL, PUBLISHED_DEVICE = "qwen3-8b", "H200"  # no figure was fitted on their results
DFLASH, DDTREE = "dflash", "ddtree"


@dataclass(frozen=True)
class Device:
    """A device's published figures."""

    gigabytes: float
    gigabytes_a_second: float
    tflops: float  # peak in bfloat16, without sparsity
    source: str
    checked: str  # source of the check on 2026-11-23


@dataclass(frozen=True)
class ModelShape:
    """A target's configuration, with the layers and block of its DFlash drafter."""

    layers: int
    hidden: int
    intermediate: int  # of each expert, if any
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    experts: int = 0
    chosen: int = 0  # experts per token
    drafter_layers: int = 5
    drafter_intermediate: int = 0
    block: int = 16

    @property
    def attention(self) -> int:
        return self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)

    def feed_forward(self, rows: float = 0) -> float:
        """Return the expected number of feed-forward parameters that ``rows`` rows read in a layer; for 0 rows, those
        that one row uses."""
        expert = 3 * self.hidden * self.intermediate
        if not self.experts:
            return expert
        return expert * (self.experts * (1 - (1 - self.chosen / self.experts) ** rows) if rows else self.chosen)

    @property
    def layer(self) -> float:
        return self.attention + self.feed_forward()

    @property
    def head(self) -> int:
        return self.hidden * self.vocabulary

    @property
    def weights_gigabytes(self) -> float:
        experts = max(1, self.experts) * 3 * self.hidden * self.intermediate
        embedding = self.hidden * self.vocabulary * (1 if self.tied else 2)
        return BFLOAT16_BYTES * (self.layers * (self.attention + experts) + embedding) / 1e9

    def pass_ms(self, device: Device, rows: int, context: int) -> float:
        """Return the floor of a target pass over ``rows`` rows after ``context`` tokens."""
        cached = 2 * self.kv_heads * self.head_dim * context
        read = BFLOAT16_BYTES * (self.layers * (self.attention + self.feed_forward(rows) + cached) + self.head)
        products = 2 * (self.layers * self.layer + self.head)
        attention = 4 * self.layers * self.heads * self.head_dim * context
        return roofline_ms(device, read, rows * (products + attention))

    def draft_ms(self, device: Device, context: int) -> float:
        """Return the floor of a draft: its layers over the block, and the target's head."""
        intermediate = self.drafter_intermediate or self.intermediate
        body = self.drafter_layers * (self.attention + 3 * self.hidden * intermediate)
        cached = 2 * self.drafter_layers * self.kv_heads * self.head_dim * context
        return roofline_ms(device, BFLOAT16_BYTES * (body + self.head + cached), 2 * self.block * (body + self.head))


def roofline_ms(device: Device, read: float, operations: float) -> float:
    """Return the milliseconds for reading these bytes or computing these operations, whichever takes longer."""
    return max(read / (1e6 * device.gigabytes_a_second), operations / (1e9 * device.tflops))


@cache
def published_figures(name: str) -> Mapping[str, Any]:
    """Read a shipped file of published figures."""
    figures: Mapping[str, Any] = json.loads((RIGS_FOLDER / "published" / f"{name}.json").read_text("utf8"))
    return figures


def devices() -> dict[str, Device]:
    """Return the devices by name."""
    return {name: Device(**figures) for name, figures in published_figures("machines")["devices"].items()}


def models() -> dict[str, ModelShape]:
    """Return the models by name."""
    return {name: ModelShape(**figures) for name, figures in published_figures("machines")["models"].items()}


@cache
def other_layers(method: str) -> float:
    """Return a round's other host work in units of a layer: the median over Qwen3-4B's 20 pairs."""
    shape = models()[FITTED]
    cost = median(tau / speedup for _, _, tau, speedup in table_pairs(method, FITTED))
    return shape.layers * cost - shape.layers - shape.drafter_layers


def table_pairs(method: str, model: str) -> list[tuple[str, float, float, float]]:
    """Return Table 1's rows for a method and model: dataset, temperature, τ, speed-up."""
    data = published_figures("ddtree")
    speedup, tau = (data["columns"].index(f"{method}_{figure}") for figure in ("speedup", "tau"))
    return [(row[0], row[1], row[tau], row[speedup]) for row in data["table1"][model]]


def machine_curve(model: str, device: str, line: str, context: int = 1024) -> CostCurve:
    """Predict the cost of rounds of one request after ``context`` tokens."""
    shape, figures = models()[model], devices()[device]
    loop = published_figures("machines")["loop"]
    host, node = (loop["host_ms_a_layer"], loop["tree_us_a_node"] / 1e3) if line == LOOP else (0.0, 0.0)
    verify = tuple(max(host * shape.layers, shape.pass_ms(figures, rows, context)) + node * (rows - 1)
                   for rows in RANK_STEPS)
    draft = max(host * shape.drafter_layers, shape.draft_ms(figures, context))
    return CostCurve(
        rig=model, hardware=f"{device}, predicted: {line}", dtype="bfloat16", sampling="greedy", context=context,
        repeats=0, rows=RANK_STEPS, verify_ms=verify, verify_low_ms=verify, verify_high_ms=verify,
        draft_ms=(draft,) * len(RANK_STEPS), overhead_ms=host * other_layers(DDTREE), plain_ms=verify[0])


def too_large_reason(model: str, device: str) -> str:
    """Say why the model does not fit on the device; "" if it does."""
    needed, available = models()[model].weights_gigabytes, devices()[device].gigabytes
    if needed <= available:
        return ""
    return f"The weights of {model} take {needed:.0f} GB in bfloat16, and the {device} has {available:g} GB."


def unfitted_errors(method: str) -> dict[str, float]:
    """Return the relative errors of the published loop against the 40 rows of Table 1 that were not fitted. Node
    budgets are not published, so the fitted constant includes the time per node."""
    errors: dict[str, float] = {}
    for model in published_figures("ddtree")["table1"]:
        shape = models()[model]
        cost = (shape.layers + shape.drafter_layers + other_layers(method)) / shape.layers  # of a round, in plain steps
        if model != FITTED:
            errors |= {f"{model}, {dataset}, T = {temperature:g}": abs(tau / cost / speedup - 1)
                       for dataset, temperature, tau, speedup in table_pairs(method, model)}
    return errors


def error_note() -> str:
    """Say how far the published-loop estimate was off for published results."""
    trees, chains = unfitted_errors(DDTREE), unfitted_errors(DFLASH)
    both = {**trees, **chains}
    worst = max(both, key=both.__getitem__)
    return ("Predicted from published figures, not measured here. On 40 results of the DDTree paper that were not "
            f"fitted, the published-loop estimate was off by {median(trees.values()):.1%} (median; chains "
            f"{median(chains.values()):.1%}; worst {both[worst]:.0%}, {worst}). The floor is a lower bound for any "
            "engine.")
