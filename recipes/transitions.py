"""The demo rig's drafters of both layouts, beside each other: chains and trees, by marginals and by transitions.

    python -m recipes.transitions --prompts bench --limit 60

``all`` is a DFlash drafter, ``all2`` a DFlash 2 one of the same data and steps. "by marginals" drafts with all2's own
weights, but ranks what each slot predicts by itself, as trees over DFlash 2 drafters do elsewhere. All settings answer
each prompt in turns, a round of each in a random order, so that tokens/s may be compared.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.lattices import marginals
from engine.records import Lattice, PromptRequest
from engine.requests.prompts import read_prompts
from engine.requests.rig_names import AUTO_DTYPE, DTYPE_NAMES, EMBEDDED_RIG, RIGS_FOLDER
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig

BUDGETS = (8, 16, 64)
CHAIN, MAX_DEPTH = "chain", 15  # its tokens: a block without its root
DRAFTERS: Mapping[str, str] = {"all": "DFlash", "unary": "DFlash 2 by marginals", "all2": "DFlash 2 by transitions"}
RESAMPLES = 1000  # of the prompts, for the range of a ratio


class ByMarginals(DFlashDrafter):
    """A DFlash 2 drafter whose selector is left out: one row for each depth."""

    def lattices(self, hidden: Tensor, roots: Tensor, width: int) -> list[Lattice]:
        return [marginals(block, width) for block in self.logits(self.norm(hidden))]


@dataclass(frozen=True)
class Contender:
    """A drafter by name, and a tree of so many nodes; 0 is a chain."""

    drafter: str
    budget: int

    def ask(self, prompt: str, max_tokens: int) -> PromptRequest:
        """The prompt under this setting."""
        method = "ddtree" if self.budget else "dflash"
        return PromptRequest(prompt, method=method, budget=self.budget or MAX_DEPTH, max_tokens=max_tokens,
                   drafters=(self.drafter,))


def with_unary(rig: Rig) -> Rig:
    """The rig with a further drafter, ``unary``: all2 by its marginals."""
    whole = rig.drafters["all2"]
    assert isinstance(whole, DFlashDrafter)
    return replace(rig, drafters={**rig.drafters, "unary": ByMarginals(whole.model, whole.embedding, whole.head)})


def measure_in_turns(rig: Rig, settings: list[Contender], prompt: str, max_tokens: int,
                     seed: int) -> NDArray[np.float64]:
    """Tokens, rounds and seconds of each setting for a prompt, all in turns: (settings, 3)."""
    with rig.interleaved([setting.ask(prompt, max_tokens) for setting in settings]) as runs:
        figures, order, open_runs = np.zeros((len(settings), 3)), random.Random(seed), list(range(len(settings)))
        while open_runs:
            for number in order.sample(open_runs, len(open_runs)):
                round_ = next(runs[number], None)
                if round_ is None:
                    open_runs.remove(number)
                else:
                    figures[number] += len(round_.acceptance.keep), 1, sum(round_.seconds.values())
    return figures


def table(settings: list[Contender], figures: NDArray[np.float64]) -> str:
    """A row for each chain or budget: τ and tokens/s of each drafter, and how trees by transitions compare with trees
    by marginals; figures (prompts, settings, 3)."""
    place = {setting: number for number, setting in enumerate(settings)}
    columns = " | ".join(f"{name}: τ | tokens/s" for name in DRAFTERS.values())
    lines = [f"| | {columns} | transitions ÷ marginals |",
             "|---" * (2 + 2 * len(DRAFTERS)) + "|"]
    for budget in (0, *BUDGETS):
        cells = [str(budget) if budget else CHAIN]
        for drafter in DRAFTERS:
            tokens, rounds, seconds = figures[:, place[Contender(drafter, budget)]].sum(0)
            cells += [f"{tokens / rounds:.2f}", f"{tokens / seconds:.0f}"]
        ours, others = (figures[:, place[Contender(drafter, budget)]] for drafter in ("all2", "unary"))
        taus, speeds = (ratio(ours, others, per) for per in (1, 2))
        lines.append("| " + " | ".join([*cells, f"τ {taus}, speed {speeds}"]) + " |")
    return "\n".join(lines)


def ratio(ours: NDArray[np.float64], others: NDArray[np.float64], per: int) -> str:
    """Tokens per round (1) or second (2), ours by the others', with a range over resampled prompts."""
    def of(rows: NDArray[np.intp]) -> float:
        (a, b), (c, d) = ours[rows][:, [0, per]].sum(0), others[rows][:, [0, per]].sum(0)
        return float(a / b / (c / d))
    draws = np.random.default_rng(0).integers(len(ours), size=(RESAMPLES, len(ours)))
    low, high = np.quantile([of(rows) for rows in draws], [0.025, 0.975])
    return f"{of(np.arange(len(ours))):.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    """Measure, and print the table; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default=EMBEDDED_RIG, metavar="NAME")
    parser.add_argument("--dtype", choices=DTYPE_NAMES, default=AUTO_DTYPE)
    parser.add_argument("--prompts", default="bench", metavar="SET")
    parser.add_argument("--limit", type=int, metavar="N")
    parser.add_argument("--max-tokens", type=int, default=128, metavar="N")
    choice = parser.parse_args()
    rig = with_unary(load_rig(choice.rig, choice.dtype))
    settings = [Contender(drafter, budget) for budget in (0, *BUDGETS) for drafter in DRAFTERS]
    prompts = read_prompts(RIGS_FOLDER / "prompts" / f"{choice.prompts}.jsonl")[:choice.limit]
    measure_in_turns(rig, settings, prompts[0].text, choice.max_tokens, 0)  # warms up
    figures = np.array([measure_in_turns(rig, settings, prompt.text, choice.max_tokens, seed)
                        for seed, prompt in enumerate(tqdm(prompts, unit="prompt"))])
    print(f"{len(prompts)} prompts of {choice.prompts}, {rig.target.dtype}, {rig.hardware}.\n"
          f"{table(settings, figures)}")
    print(json.dumps({"settings": [[setting.drafter, setting.budget] for setting in settings],
                      "tokens_rounds_seconds": figures.sum(0).round(3).tolist()}))


if __name__ == "__main__":
    main()
