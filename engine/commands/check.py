"""Is it lossless? Every lossless method at every budget against plain autoregressive decoding, token by token.

    python -m engine check --prompts check --json

float32 at the given temperature, 0 by default. Above it, plain decoding and the rules that keep the target's choices
share one draw a position, so their texts are equal too. A rule with draws of its own (``sequential``) writes another
text with the same distribution: it is not compared there, which the output says, but in tests/engine/test_law.py.
The exit status is 1 when a text differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from tqdm import tqdm

from engine.commands import flags, values
from engine.commands.verb import DONE, NOT_DONE, Result, Verb
from engine.decode import decode
from engine.errors import RequestError
from engine.lab.prompt_sets import prompt_set
from engine.methods import METHODS, Method
from engine.outcome import Outcome, outcome
from engine.records import Ask, Sampling
from engine.runtime.rigs.live import LiveRig
from engine.runtime.rigs.rigs import Rig, open_rig

BUDGETS = (0, 1, 7, 15, 64, 256)
MOST_NAMED = 20  # of the texts that differ


@dataclass(frozen=True)
class TextDifference:
    """A text that is not the autoregressive one: where it departs, counted in generated tokens."""

    prompt: str
    method: str
    split: str
    budget: int
    place: int


def lossless_points(temperature: float = 0.0) -> list[tuple[str, str]]:
    """(method, split) of everything, the baseline aside, that claims to write the text of plain decoding."""
    return [(name, split) for name, row in drafting().items() if equal_text(row, temperature) for split in row.splits]


def drafting() -> dict[str, Method]:
    """The lossless methods, the baseline aside."""
    return {name: row for name, row in METHODS.items() if row.lossless and row.heads}


def equal_text(row: Method, temperature: float) -> bool:
    """Whether a lossless method writes the text of plain decoding with the same seed, not only its distribution."""
    return temperature == 0 or row.follows_text


def exact_in_law_only(temperature: float) -> list[str]:
    """The lossless methods whose texts cannot be compared at this temperature: their rules have draws of their own."""
    return [name for name, row in drafting().items() if not equal_text(row, temperature)]


def answer(rig: Rig, live: LiveRig, ask: Ask) -> Outcome:
    """The ask run to its end."""
    return outcome(decode(live.request(ask), rig.target, list(rig.drafters(ask.method).values())))


def differences(rig: Rig, prompt: str, choice: argparse.Namespace) -> Iterator[TextDifference]:
    """Where the methods' answers to one prompt depart from the autoregressive one."""
    live = LiveRig(rig)
    sampling = Sampling(choice.temperature, 0, choice.top_p, choice.seed)
    plain = answer(rig, live, Ask(prompt, "autoregressive", 0, choice.max_tokens, sampling)).token_ids
    for method, split in lossless_points(choice.temperature):
        for budget in choice.budgets:
            found = answer(rig, live, Ask(prompt, method, budget, choice.max_tokens, sampling, split)).token_ids
            if found != plain:
                place = next((index for index, (one, other) in enumerate(zip(plain, found, strict=False))
                              if one != other), min(len(plain), len(found)))
                yield TextDifference(prompt, method, split, budget, place)


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    flags.add_rig(verb)
    flags.add_prompts(verb, None, 200)
    verb.add_argument("--skip", type=values.whole(0, flags.MOST_PROMPTS), default=0, metavar="N",
                      help="leave the first so many prompts out")
    flags.add_budgets(verb, BUDGETS)
    flags.add_max_tokens(verb, 48)
    flags.add_temperature(verb)
    flags.add_top_p(verb)
    flags.add_seed(verb)
    flags.add_json(verb)


def run(choice: argparse.Namespace) -> Result:
    """Compare every text, name the first ones that differ, and return what --json prints."""
    prompts = prompt_set(choice.prompts, choice.skip + choice.limit)[choice.skip:]
    if not prompts:
        raise RequestError(f"{choice.prompts} holds no more than {choice.skip} prompts, and --skip leaves those out.")
    rig = open_rig(choice.rig, "float32")
    found = [each for prompt in tqdm(prompts, unit="prompt") for each in differences(rig, prompt.text, choice)]
    points, apart = lossless_points(choice.temperature), exact_in_law_only(choice.temperature)
    texts = len(prompts) * len(choice.budgets) * len(points)
    for each in found[:MOST_NAMED]:
        print(f"{each.method} ({each.split}) at budget {each.budget} departs at token {each.place}: "
              f"{each.prompt[:60]!r}")
    return {"texts": texts, "equal": texts - len(found), "prompts": len(prompts), "methods": points,
            "not_compared": apart, "budgets": choice.budgets, "differences": [asdict(each) for each in found]}


def summary(result: Result) -> str:
    """The verdict."""
    said = f"{result['equal']} of {result['texts']} texts equal autoregressive decoding."
    if not result["not_compared"]:
        return said
    return (f"{said}\nNot compared above temperature 0: {', '.join(result['not_compared'])}, exact in distribution, "
            "with draws of its own.")


def status(result: Result) -> int:
    """1 where a text differs."""
    return NOT_DONE if result["differences"] else DONE


VERB = Verb(__doc__, add, run, summary, status)
