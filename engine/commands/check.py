"""Is it lossless? Every lossless method at every budget against plain autoregressive decoding, token by token.

    python -m engine check --prompts check --json

Runs in float32, or int4 with --dtype, at the given temperature, 0 by default. Above 0, plain decoding and the rules
that keep the target's choices share one draw per position, so their texts are equal too. A rule with separate draws
(``sequential``) writes another text of the same distribution: the output says that it is not compared, and
tests/engine/decoding/test_distribution.py tests it.
With --concurrency, several mixed requests share their passes, and those at the budget auto share one total of rows,
too. The exit status is 1 if a text differs.
"""

import argparse
import random
from collections.abc import Iterator, Sequence

from tqdm import tqdm

from engine import open_rig
from engine.commands import Outcome, flags
from engine.commands.flags import SAMPLING, add_flags
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import decode_batch
from engine.decoding.methods import METHODS, Method
from engine.errors import RequestError
from engine.lab.against_plain import compare_texts
from engine.lab.reading import WrittenText, text_of
from engine.lab.settings import BASELINE, prompt_set
from engine.records import PromptRequest, Round
from engine.requests.rig_names import INT4
from engine.serving.rig import Rig

EXACT = ("float32", INT4)
BUDGETS = [0, 1, 7, 15, 64, 256, AUTO]
MAX_NAMED = 20  # how many of the differing texts are named
DRAFTING = {name: row for name, row in METHODS.items() if row.lossless and row.drafter_count}


def equal_text(row: Method, temperature: float) -> bool:
    """Return whether a lossless method writes exactly the text of plain decoding with the same seed."""
    return temperature == 0 or row.follows_text


def lossless_points(methods: Sequence[str], temperature: float = 0.0) -> list[tuple[str, str]]:
    """Return the pairs of method and split that claim to write plain decoding's text, except the baseline."""
    return [(name, split) for name, row in DRAFTING.items() if name in methods and equal_text(row, temperature)
            for split in row.splits]


def texts(rig: Rig, requests: Sequence[PromptRequest], concurrency: int) -> list[WrittenText]:
    """Return the answers to all requests, ``concurrency`` of them in shared passes; those at the pace ``auto`` share
    one total of rows."""
    rounds: list[list[Round]] = [[] for _ in requests]
    for number, round_ in decode_batch(map(rig.prepare, requests), concurrency):
        rounds[number].append(round_)
    return [text_of(written) for written in rounds]


def differences(rig: Rig, prompts: Sequence[str], args: argparse.Namespace, concurrency: int
                ) -> Iterator[dict[str, object]]:
    """Yield the texts that differ from the autoregressive ones: ``place`` is the first different token, ``why`` the
    verdict. The order is random, so that different methods, budgets and prompts share passes."""
    sampling = flags.sampling_of(args)
    requests = [PromptRequest(prompt, method=method, budget=nodes, pace=pace, split=split, max_tokens=args.max_tokens,
                          sampling=sampling)
            for prompt in prompts for method, split in lossless_points(rig.methods, args.temperature)
            for nodes, pace in map(flags.nodes_and_pace, args.budgets)]
    random.Random(args.seed).shuffle(requests)
    plain_requests = [PromptRequest(prompt, method=BASELINE, budget=0, max_tokens=args.max_tokens, sampling=sampling)
                      for prompt in prompts]
    plain = dict(zip(prompts, texts(rig, plain_requests, 1), strict=True))
    for request, text in zip(requests, texts(rig, requests, concurrency), strict=True):
        if text.token_ids != plain[request.prompt].token_ids:
            comparison = compare_texts(text, plain[request.prompt], rig.prepare(request).request, args.dtype)
            yield {"prompt": request.prompt, "method": request.method, "split": request.split,
                   "budget": AUTO if request.pace == AUTO else request.budget, "place": comparison.same,
                   "why": comparison.why(args.temperature, args.dtype), "concurrency": concurrency}


def add(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, "--rig")
    add_flags(parser, "--dtype", type=flags.one_of(*EXACT), default=EXACT[0],
              help=f"{' or '.join(EXACT)}: those in which texts are equal")
    add_flags(parser, "--prompts", required=True)
    add_flags(parser, "--limit", default=200)
    parser.add_argument("--skip", type=flags.int_between(0, flags.MAX_PROMPTS), default=0, metavar="N",
                        help="leave out the first N prompts")
    add_flags(parser, "--budgets", type=flags.budget_or_auto, default=BUDGETS)
    add_flags(parser, "--concurrency", default=[1])
    add_flags(parser, "--max-tokens", default=48)
    add_flags(parser, *SAMPLING)


def run(args: argparse.Namespace) -> Outcome:
    prompts = [prompt.text for prompt in prompt_set(args.prompts, args.skip + args.limit)[args.skip:]]
    if not prompts:
        raise RequestError(f"{args.prompts} holds no more than {args.skip} prompts, and --skip leaves those out.")
    rig = open_rig(args.rig, args.dtype)
    differing: list[dict[str, object]] = []
    for concurrency in args.concurrency:
        for first in tqdm(range(0, len(prompts), concurrency), unit="prompts"):
            differing += differences(rig, prompts[first:first + concurrency], args, concurrency)
    points = lossless_points(rig.methods, args.temperature)
    not_compared = [name for name, row in DRAFTING.items()
                    if name in rig.methods and not equal_text(row, args.temperature)]
    count = len(prompts) * len(args.budgets) * len(points) * len(args.concurrency)
    lines = [f"{row['method']} ({row['split']}) at budget {row['budget']}, {row['concurrency']} at once, departs at "
             f"token {row['place']}: {str(row['prompt'])[:60]!r}. {row['why']}" for row in differing[:MAX_NAMED]]
    lines.append(f"{count - len(differing)} of {count} texts equal autoregressive decoding.")
    if not_compared:
        lines.append(f"Not compared above temperature 0: {', '.join(not_compared)}, exact in distribution, with draws "
                     "of its own.")
    result = {"texts": count, "equal": count - len(differing), "prompts": len(prompts), "methods": points,
              "not_compared": not_compared, "budgets": args.budgets, "concurrency": args.concurrency,
              "differences": differing}
    return Outcome(result, "\n".join(lines), failed=bool(differing))
