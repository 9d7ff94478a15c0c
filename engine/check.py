"""Is it lossless? Every lossless method at every budget against plain autoregressive decoding, token by token.

    python -m engine.check --prompts assets/prompts/check.jsonl --json

float32 at the given temperature (0 by default; above it the shared position draws make the texts equal too).
The last line of the output is one JSON object with --json; the exit status is 1 when a text differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from engine.decode import decode
from engine.errors import CanopyError
from engine.methods import METHODS
from engine.outcome import Outcome, outcome
from engine.prompts import read_prompts
from engine.records import Ask, Sampling
from engine.runtime.live import LiveRig
from engine.runtime.rigs import Rig, open_rig

BUDGETS = (0, 1, 7, 15, 64, 256)


@dataclass(frozen=True)
class Difference:
    """A text that is not the autoregressive one: where it departs, counted in generated tokens."""

    prompt: str
    method: str
    split: str
    budget: int
    place: int


def lossless_points() -> list[tuple[str, str]]:
    """(method, split) of everything that claims to be lossless, the baseline aside."""
    return [(name, split) for name, row in METHODS.items() if row.lossless and row.heads
            for split in (row.shares if row.combine == "merged" else ("total",))]


def answer(rig: Rig, live: LiveRig, ask: Ask) -> Outcome:
    """The ask run to its end."""
    return outcome(decode(live.request(ask), rig.target, list(rig.drafters(ask.method).values())))


def differences(rig: Rig, prompt: str, choice: argparse.Namespace) -> Iterator[Difference]:
    """Where the methods' answers to one prompt depart from the autoregressive one."""
    live = LiveRig(rig)
    sampling = Sampling(choice.temperature, 0, choice.top_p, choice.seed)
    plain = answer(rig, live, Ask(prompt, "autoregressive", 0, choice.max_tokens, sampling)).token_ids
    for method, split in lossless_points():
        for budget in choice.budgets:
            found = answer(rig, live, Ask(prompt, method, budget, choice.max_tokens, sampling, split)).token_ids
            if found != plain:
                place = next((index for index, (one, other) in enumerate(zip(plain, found, strict=False))
                              if one != other), min(len(plain), len(found)))
                yield Difference(prompt, method, split, budget, place)


def main() -> int:
    """Exit 0 when every text is equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="demo")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=200, help="use the first so many prompts")
    parser.add_argument("--skip", type=int, default=0, help="leave the first so many prompts out")
    parser.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS))
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    choice = parser.parse_args()
    try:
        rig = open_rig(choice.rig, "float32")
        prompts = read_prompts(choice.prompts)[choice.skip:choice.skip + choice.limit]
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    found = [each for prompt in tqdm(prompts, unit="prompt") for each in differences(rig, prompt.text, choice)]
    texts = len(prompts) * len(choice.budgets) * len(lossless_points())
    for each in found[:20]:
        print(f"{each.method} ({each.split}) at budget {each.budget} departs at token {each.place}: "
              f"{each.prompt[:60]!r}")
    print(f"{texts - len(found)} of {texts} texts equal autoregressive decoding.")
    if choice.json:
        print(json.dumps({"texts": texts, "equal": texts - len(found), "prompts": len(prompts),
                          "methods": lossless_points(), "budgets": choice.budgets,
                          "differences": [asdict(each) for each in found]}))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
