"""Is it lossless? Every lossless method at every budget against plain autoregressive decoding, token by token.

    python -m engine check --prompts check --json

Runs in float32, or int4 with --dtype, at the given temperature, 0 by default. Above 0, plain decoding and the rules
that keep the target's choices share one draw per position, so their texts are equal too. A rule with draws of its own
(``sequential``) writes another text of the same distribution: the output says that it is not compared, and
tests/engine/decoding/test_law.py tests it.
With --concurrency, several mixed requests share their passes, and those at the budget auto share one total of rows,
too.
The exit status is 1 if a text differs.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from tqdm import tqdm

from engine.budget.auto import UNMEASURED, AutoBudget, SharedRows
from engine.commands import flags, values
from engine.commands.flags import DONE, NOT_DONE, Result, Verb
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import BatchRequest, decode_batch
from engine.decoding.methods import METHODS, Method
from engine.errors import RequestError
from engine.lab.parting import Text, compared, text_of
from engine.lab.planning import prompt_set
from engine.records import PromptRequest, Round, Sampling
from engine.requests.prompts import Prompt
from engine.requests.rig_names import FOUR_BITS
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig

EXACT = ("float32", FOUR_BITS)
BUDGETS = (0, 1, 7, 15, 64, 256, AUTO)
PRICED_AT = 128  # tokens of prefix at which auto's costs are measured
MOST_NAMED = 20  # how many of the differing texts are named


@dataclass(frozen=True)
class TextDifference:
    """A text that differs from the autoregressive one: ``place`` is the first different generated token,
    ``why`` the verdict on it in a sentence, ``concurrency`` the number of requests at once."""

    prompt: str
    method: str
    split: str
    budget: int | str
    place: int
    why: str
    concurrency: int


def lossless_points(temperature: float = 0.0) -> list[tuple[str, str]]:
    """The pairs of method and split that claim to write plain decoding's text, except the baseline."""
    return [(name, split) for name, row in drafting().items() if equal_text(row, temperature) for split in row.splits]


def drafting() -> dict[str, Method]:
    """The lossless methods, except the baseline."""
    return {name: row for name, row in METHODS.items() if row.lossless and row.drafter_count}


def equal_text(row: Method, temperature: float) -> bool:
    """Whether a lossless method writes the text of plain decoding with the same seed, not only its distribution."""
    return temperature == 0 or row.follows_text


def exact_in_law_only(temperature: float) -> list[str]:
    """The lossless methods whose texts cannot be compared at this temperature: their rules have draws of their own."""
    return [name for name, row in drafting().items() if not equal_text(row, temperature)]


def asks_of(prompt: str, choice: argparse.Namespace) -> list[PromptRequest]:
    """Every ask of a prompt whose text has to be that of plain decoding."""
    paced = [flags.nodes_and_pace(budget) for budget in choice.budgets]
    return [PromptRequest(prompt, method=method, budget=budget, max_tokens=choice.max_tokens,
                          sampling=sampling_of(choice),
                split=split, pace=pace)
            for method, split in lossless_points(choice.temperature) for budget, pace in paced]


def plain_ask(prompt: str, choice: argparse.Namespace) -> PromptRequest:
    """The ask for plain decoding of the prompt."""
    return PromptRequest(prompt, method="autoregressive", budget=0, max_tokens=choice.max_tokens,
                         sampling=sampling_of(choice))


def sampling_of(choice: argparse.Namespace) -> Sampling:
    """The sampling of every text of a check."""
    return Sampling(choice.temperature, 0, choice.top_p, choice.seed)


def texts(rig: Rig, asks: Sequence[PromptRequest], concurrency: int) -> list[Text]:
    """The texts that answer every ask, ``concurrency`` of them sharing their passes; those at the pace ``auto`` share
    one total of rows."""
    adaptive = any(ask.pace == AUTO for ask in asks)
    curve = rig.costs.ready(PRICED_AT, asks[0].sampling) if adaptive else UNMEASURED
    asked = [BatchRequest(rig.request(ask), list(rig.drafters_for(ask.method).values()),
                          AutoBudget(curve) if ask.pace == AUTO else None) for ask in asks]
    rounds: list[list[Round]] = [[] for _ in asks]
    for place, round_ in decode_batch(asked, rig.target, concurrency, SharedRows()):
        rounds[place].append(round_)
    return [text_of(written) for written in rounds]


def differences(rig: Rig, prompts: Sequence[str], choice: argparse.Namespace, concurrency: int
                ) -> Iterator[TextDifference]:
    """The differences between the methods' answers to some prompts and the autoregressive ones, which are written one
    at a time. The order is random, so that different methods, budgets and prompts run beside each other."""
    asks = [ask for prompt in prompts for ask in asks_of(prompt, choice)]
    random.Random(choice.seed).shuffle(asks)
    plain = dict(zip(prompts, texts(rig, [plain_ask(prompt, choice) for prompt in prompts], 1), strict=True))
    for ask, written in zip(asks, texts(rig, asks, concurrency), strict=True):
        if written.token_ids != plain[ask.prompt].token_ids:
            comparison = compared(written, plain[ask.prompt], rig.request(ask), choice.dtype)
            budget = AUTO if ask.pace == AUTO else ask.budget
            yield TextDifference(ask.prompt, ask.method, ask.split, budget, comparison.same,
                                 comparison.why(choice.temperature, choice.dtype), concurrency)


def add(verb: argparse.ArgumentParser) -> None:
    """The flags."""
    flags.add_rig(verb)
    verb.add_argument("--dtype", type=values.one_of(*EXACT), default=EXACT[0], metavar="DTYPE",
                      help=f"{' or '.join(EXACT)}: those in which texts are equal (default: {EXACT[0]})")
    flags.add_prompts(verb, None, 200)
    verb.add_argument("--skip", type=values.whole(0, flags.MOST_PROMPTS), default=0, metavar="N",
                      help="leave the first so many prompts out")
    flags.add_budgets_or_auto(verb, BUDGETS)
    flags.add_concurrency(verb, [1], "answer so many requests at once, in shared passes; several numbers one after "
                          "another (default: 1)")
    flags.add_max_tokens(verb, 48)
    flags.add_temperature(verb)
    flags.add_top_p(verb)
    flags.add_seed(verb)
    flags.add_json(verb)


def groups(prompts: Sequence[Prompt], concurrency: int) -> list[list[str]]:
    """The prompts in groups of as many as are answered at once."""
    words = [prompt.text for prompt in prompts]
    return [words[first:first + concurrency] for first in range(0, len(words), concurrency)]


def run(choice: argparse.Namespace) -> Result:
    """Compare every text, name the first ones that differ, and return what --json prints."""
    prompts = prompt_set(choice.prompts, choice.skip + choice.limit)[choice.skip:]
    if not prompts:
        raise RequestError(f"{choice.prompts} holds no more than {choice.skip} prompts, and --skip leaves those out.")
    rig = load_rig(choice.rig, choice.dtype)
    parted = [difference for concurrency in choice.concurrency for prompts_ in tqdm(groups(prompts, concurrency),
                                                                                    unit="prompts")
             for difference in differences(rig, prompts_, choice, concurrency)]
    points, apart = lossless_points(choice.temperature), exact_in_law_only(choice.temperature)
    count = len(prompts) * len(choice.budgets) * len(points) * len(choice.concurrency)
    for parting in parted[:MOST_NAMED]:
        print(f"{parting.method} ({parting.split}) at budget {parting.budget}, {parting.concurrency} at "
              f"once, departs at token {parting.place}: {parting.prompt[:60]!r}. {parting.why}")
    return {"texts": count, "equal": count - len(parted), "prompts": len(prompts), "methods": points,
            "not_compared": apart, "budgets": choice.budgets, "concurrency": choice.concurrency,
            "differences": [asdict(parting) for parting in parted]}


def summary(result: Result) -> str:
    """The verdict."""
    sentence = f"{result['equal']} of {result['texts']} texts equal autoregressive decoding."
    if not result["not_compared"]:
        return sentence
    return (f"{sentence}\nNot compared above temperature 0: {', '.join(result['not_compared'])}, exact in "
            "distribution, with draws of its own.")


def status(result: Result) -> int:
    """The exit status: 1 if a text differs."""
    return NOT_DONE if result["differences"] else DONE


VERB = Verb(__doc__, add, run, summary, status)
