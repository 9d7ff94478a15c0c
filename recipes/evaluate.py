"""What the demo rig can do: exact answers, functions that run, and how much of its drafts is accepted.

    python -m recipes.evaluate --json

Greedy, on prompts of the test split, which training never drew; with --reworded on prompts of the same domains that a
person worded, which no template made.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from tqdm import tqdm

from engine.errors import CanopyError
from engine.records import PromptRequest, Round
from engine.requests.rig_names import AUTO_DTYPE, DTYPE_NAMES, EMBEDDED_RIG, RIGS_FOLDER
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import committed_ids, tau
from recipes.confined import runs_to_its_end
from recipes.corpus.items import Item
from recipes.corpus.mixture import unseen_items

REWORDED = RIGS_FOLDER / "prompts" / "reworded.jsonl"
DRAFTERS = ("math", "code", "all")


@dataclass(frozen=True)
class Drafting:
    """One way to decode: its name in the result, a method, a split and drafters."""

    name: str
    method: str
    split: str = "total"
    drafters: tuple[str, ...] = ()


ROUTED = Drafting("routed", "routed")
BOTH = (ROUTED, Drafting("merged_total", "merged"), Drafting("merged_each", "merged", "each"),
        Drafting("joint", "joint"))
SINGLE: Mapping[str, Drafting] = MappingProxyType({
    f"{method}_{drafter}": Drafting(f"{method}_{drafter}", method, drafters=(drafter,))
    for method in ("ddtree", "dflash") for drafter in DRAFTERS})
# What each domain is asked: both specialists if one is at home, the ways of using both where domains mix.
SETTINGS: Mapping[str, tuple[Drafting, ...]] = MappingProxyType({
    "math": (SINGLE["ddtree_math"], SINGLE["ddtree_code"], SINGLE["dflash_math"], ROUTED),
    "code": (SINGLE["ddtree_code"], SINGLE["ddtree_math"], SINGLE["dflash_code"], ROUTED),
    "mixed": (*BOTH, SINGLE["ddtree_all"]),
    "explain": (SINGLE["ddtree_all"], SINGLE["dflash_all"]),
})


def exact_answer(text: str, check: str) -> bool:
    """Return whether the number after the last ``Answer: `` is the right one."""
    numbers = re.findall(r"Answer: (-?\d+)", text)
    return bool(numbers) and numbers[-1] == check


def function_runs(text: str, check: str) -> bool:
    """Return whether the fenced function in ``text`` runs and passes its assertions, in a process that can do nothing
    else."""
    fenced = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    return fenced is not None and runs_to_its_end(f"{fenced[1]}\n{check}")


CHECKS: Mapping[str, Callable[[str, str], bool] | None] = MappingProxyType(  # explanations only people can judge
    {"math": exact_answer, "code": function_runs, "mixed": function_runs, "explain": None})
WRITTEN = tuple(domain for domain, check in CHECKS.items() if check is function_runs)  # whose answers are run


def answer(rig: Rig, item: Item, setting: Drafting, args: argparse.Namespace) -> list[Round]:
    """Answer one item, and return the rounds."""
    ask = PromptRequest(item.prompt, method=setting.method, budget=args.budget, max_tokens=args.max_tokens,
                        split=setting.split, drafters=setting.drafters)
    with rig.interleaved([ask]) as (rounds,):
        return list(rounds)


def routed_drafters(rounds: Sequence[Round]) -> list[int]:
    """Return the drafter (1, 2) that each round of a routed run verified; rounds without a drafted node are left
    out."""
    return [int(round_.tree.drafters[1]) for round_ in rounds if len(round_.tree) > 1]


def mean_accepted(runs: Sequence[Sequence[Round]]) -> float:
    """Return τ over all rounds of all runs."""
    return tau([round_ for run in runs for round_ in run])


def reworded_items(domain: str) -> list[Item]:
    """Return the prompts of a domain that a person worded; they are not in any training data."""
    rows = [json.loads(row) for row in REWORDED.read_text(encoding="utf8").splitlines()]
    return [Item(domain, row["prompt"], "", row.get("answer", row.get("check", "")))
            for row in rows if row["category"] == domain]


def domain_scores(rig: Rig, domain: str, args: argparse.Namespace) -> dict[str, float]:
    """Count right answers under autoregressive-equal text, τ per setting, and the drafters that routing picked."""
    items = reworded_items(domain) if args.reworded else unseen_items(domain, args.prompts)
    scores: dict[str, float] = {}
    for setting in SETTINGS[domain]:
        runs = [answer(rig, item, setting, args) for item in tqdm(items, desc=f"{domain} {setting.name}")]
        scores[setting.name] = round(mean_accepted(runs), 3)
        if "tokens" not in scores:
            check = CHECKS[domain]
            if check and (args.run_code or domain not in WRITTEN):
                texts = [rig.tokenizer.decode(committed_ids(rounds)) for rounds in runs]
                right = [check(text, item.check) for text, item in zip(texts, items, strict=True)]
                scores["right"] = float(np.mean(right))
            scores["tokens"] = float(np.mean([sum(len(round_.acceptance.keep) for round_ in run) for run in runs]))
        if setting is ROUTED:
            drafters = [drafter for rounds in runs for drafter in routed_drafters(rounds)]
            scores["routed_to_first"] = round(float(np.mean([drafter == 1 for drafter in drafters])), 3)
    return scores


def main() -> None:
    """Evaluate every domain; the last line is one JSON object with --json, else a sentence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default=EMBEDDED_RIG, metavar="NAME")
    parser.add_argument("--dtype", choices=DTYPE_NAMES, default=AUTO_DTYPE)
    parser.add_argument("--prompts", type=int, default=200, metavar="N", help="test prompts per domain (default: 200)")
    parser.add_argument("--domains", choices=tuple(CHECKS), nargs="+", default=["math", "code", "mixed"])
    parser.add_argument("--reworded", action="store_true",
                        help="all prompts that a person worded, instead of --prompts of the test split")
    parser.add_argument("--budget", type=int, default=64, metavar="NODES")
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N")
    parser.add_argument("--run-code", action="store_true", help="run the programs that the model writes, each in a "
                        "process without files, network or much memory, to count those that are right (always for the "
                        f"rig {EMBEDDED_RIG}, which learnt from generators of ours)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    args = parser.parse_args()
    if args.reworded and "mixed" in args.domains:
        parser.error("there are no reworded prompts of the domain mixed; choose --domains math code explain")
    args.run_code = args.run_code or args.rig == EMBEDDED_RIG
    try:
        rig = load_rig(args.rig, args.dtype)
        scores = {domain: domain_scores(rig, domain, args) for domain in args.domains}
    except CanopyError as error:
        raise SystemExit(str(error)) from error
    for domain, values in scores.items():
        print(domain + ": " + ", ".join(f"{name} {value:.3f}" for name, value in values.items()))
    prompts = "reworded" if args.reworded else args.prompts
    print(f"{prompts} prompts a domain, node budget {args.budget}, {rig.target.dtype}.")
    if args.json:
        print(json.dumps({"prompts": prompts, "budget": args.budget, "dtype": rig.target.dtype, **scores}))


if __name__ == "__main__":
    main()
