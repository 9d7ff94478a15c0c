"""What the demo rig can do: exact answers, functions that run, and how much its drafters get accepted.

    python -m engine.training.evaluate --json

Greedy, on prompts of the test split, which training never drew. The last line is one JSON object with --json.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from tqdm import tqdm

from engine.decode import decode
from engine.records import Ask, Round
from engine.runtime.live import LiveRig
from engine.runtime.rigs import Rig, open_rig
from engine.trace import committed_ids, tau
from engine.training.corpus.items import Item
from engine.training.corpus.mixture import unseen_items

SECONDS_TO_RUN = 10
HEADS = ("math", "code", "all")


@dataclass(frozen=True)
class Setting:
    """One way to decode: its name in the result, a method, a split and heads."""

    name: str
    method: str
    split: str = "total"
    heads: tuple[str, ...] = ()


ROUTED = Setting("routed", "routed")
BOTH = (ROUTED, Setting("merged_total", "merged"), Setting("merged_each", "merged", "each"),
        Setting("joint", "joint"))
SINGLE: Mapping[str, Setting] = MappingProxyType({
    f"{method}_{head}": Setting(f"{method}_{head}", method, heads=(head,))
    for method in ("ddtree", "dflash") for head in HEADS})
# What each domain is asked: both specialists where one is at home, the ways of using both where domains mix.
SETTINGS: Mapping[str, tuple[Setting, ...]] = MappingProxyType({
    "math": (SINGLE["ddtree_math"], SINGLE["ddtree_code"], SINGLE["dflash_math"], ROUTED),
    "code": (SINGLE["ddtree_code"], SINGLE["ddtree_math"], SINGLE["dflash_code"], ROUTED),
    "mixed": (*BOTH, SINGLE["ddtree_all"]),
    "explain": (SINGLE["ddtree_all"], SINGLE["dflash_all"]),
})


def exact_answer(text: str, check: str) -> bool:
    """Whether the number behind the last ``Answer: `` is the right one."""
    found = re.findall(r"Answer: (-?\d+)", text)
    return bool(found) and found[-1] == check


def function_runs(text: str, check: str) -> bool:
    """Whether the fenced function in ``text`` runs and passes its assertions, in a process of its own."""
    fenced = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    if not fenced:
        return False
    try:
        done = subprocess.run([sys.executable, "-I", "-c", f"{fenced[1]}\n{check}"], capture_output=True,
                              timeout=SECONDS_TO_RUN, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def nothing_to_check(text: str, check: str) -> bool:
    """Explanations are read by people; here only that there is one."""
    return bool(text.strip())


CHECKS: Mapping[str, Callable[[str, str], bool]] = MappingProxyType(
    {"math": exact_answer, "code": function_runs, "mixed": function_runs, "explain": nothing_to_check})


def answer(rig: Rig, item: Item, setting: Setting, choice: argparse.Namespace) -> list[Round]:
    """The rounds that answer one item."""
    ask = Ask(item.prompt, setting.method, choice.budget, choice.max_tokens, split=setting.split, heads=setting.heads)
    drafters = rig.drafters(ask.method, ask.heads)
    return list(decode(LiveRig(rig).request(ask), rig.target, list(drafters.values())))


def routed_heads(rounds: Sequence[Round]) -> list[int]:
    """The head (1, 2) that each round of a routed run verified; rounds without a drafted node are left out."""
    return [int(made.tree.heads[1]) for made in rounds if len(made.tree) > 1]


def mean_accepted(runs: Sequence[Sequence[Round]]) -> float:
    """τ over all rounds of all runs."""
    return tau([made for run in runs for made in run])


def domain_scores(rig: Rig, domain: str, choice: argparse.Namespace) -> dict[str, float]:
    """Right answers under autoregressive-equal text, τ per setting, and the heads that routing picked."""
    items = unseen_items(domain, choice.prompts)
    scores: dict[str, float] = {}
    for setting in SETTINGS[domain]:
        runs = [answer(rig, item, setting, choice) for item in tqdm(items, desc=f"{domain} {setting.name}")]
        scores[setting.name] = round(mean_accepted(runs), 3)
        if "right" not in scores:
            texts = [rig.tokenizer.decode(committed_ids(rounds)) for rounds in runs]
            right = [CHECKS[domain](text, item.check) for text, item in zip(texts, items, strict=True)]
            scores["right"] = float(np.mean(right))
            scores["tokens"] = float(np.mean([sum(len(made.acceptance.keep) for made in run) for run in runs]))
        if setting is ROUTED:
            heads = [head for rounds in runs for head in routed_heads(rounds)]
            scores["routed_to_first"] = round(float(np.mean([head == 1 for head in heads])), 3)
    return scores


def main() -> None:
    """Evaluate and print a table for people, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="demo")
    parser.add_argument("--prompts", type=int, default=200, help="test prompts per domain")
    parser.add_argument("--domains", nargs="+", default=["math", "code", "mixed"], choices=list(CHECKS))
    parser.add_argument("--budget", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--json", action="store_true")
    choice = parser.parse_args()
    rig = open_rig(choice.rig, choice.dtype)
    scores = {domain: domain_scores(rig, domain, choice) for domain in choice.domains}
    for domain, values in scores.items():
        print(domain + ": " + ", ".join(f"{name} {value:.3f}" for name, value in values.items()))
    if choice.json:
        print(json.dumps({"prompts": choice.prompts, "budget": choice.budget, "dtype": choice.dtype, **scores}))


if __name__ == "__main__":
    main()
