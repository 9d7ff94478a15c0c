"""Compares two runs, of any engines: where texts and rounds first differ, and how many tokens each accepted. Texts are
compared as text, since two engines may have different token ids."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from os.path import commonprefix
from typing import Any, TypedDict

from engine.decoding.tree import depths
from engine.errors import RequestError
from engine.lab.against_plain import RULE, near_tie_text, rounding_nats, verdict, verdict_words, widest_gap
from engine.lab.reading import text_of
from engine.trace import RunText, Trace, as_bytes
from explorer.browser_calls import Call, browser_call, named_fields

SIDES = ("first", "second")
MAX_DEPTHS = 64


class Side(TypedDict):
    """One of two runs. ``rows``: the mean rows per pass. ``depths``: for each depth from 1, the accepted share of the
    rounds that drafted to it."""

    rows: float
    depths: list[float]


class TwoRuns(TypedDict):
    """The comparison of two runs. ``rule``: the rule behind the verdict; ``first_difference``: the first differing
    token of each text (0-based)."""

    summary: str
    rule: str
    same_prompt: bool
    same_text: bool
    first_difference: list[int] | None
    sides: list[Side]


def two_runs_call(trace_of: Callable[[str], Trace]) -> Call:
    """Return the browser function that compares {"first": {"run"}, "second": {"run"}}."""
    def compared(query: Mapping[str, Any]) -> TwoRuns:
        first, second = (trace_of(str(named_fields(query.get(side)).get("run"))) for side in SIDES)
        return two_runs(first, second)
    return browser_call("two_runs", compared)


def two_runs(first: Trace, second: Trace) -> TwoRuns:
    """Compare two runs; RequestError if the rounds of one are unknown."""
    traces = first, second
    for side, trace in zip(SIDES, traces, strict=True):
        if not trace.entries:
            raise RequestError(f"The {side} run has no round to compare.")
        if trace.header.chunked:
            raise RequestError(f"The rounds of the {side} run are not known, since {trace.header.engine} does not "
                               "report them; there is nothing to compare round by round.")
    positions = first_difference(first, second)
    lengths = [[len(entry.round.acceptance.keep) for entry in trace.entries] for trace in traces]
    first_prompt, second_prompt = ((trace.header.prompt, trace.header.turns, trace.header.thinking) for trace in traces)
    why = _why(traces, positions) if positions and first_prompt == second_prompt else ""
    sentences = [] if first_prompt == second_prompt else ["The prompts differ, so all else may differ, too."]
    sentences.append("The texts are the same." if positions is None else
                     f"The texts first differ at token {positions[0] + 1} of the first and {positions[1] + 1} of the "
                     "second.")
    differing = next(((number, *pair) for number, pair in enumerate(zip(*lengths, strict=False), 1)
                      if pair[0] != pair[1]), None)
    if differing:
        number, first_kept, second_kept = differing
        sentences.append(f"The rounds first differ at round {number}: {first_kept} and {second_kept} tokens kept.")
    elif len(lengths[0]) == len(lengths[1]):
        sentences.append("Every round kept as many tokens as in the other run.")
    return {"summary": " ".join(filter(None, [*sentences, why])), "rule": RULE if why else "",
            "same_prompt": first_prompt == second_prompt, "same_text": positions is None, "first_difference": positions,
            "sides": [_side(trace) for trace in traces]}


def _why(traces: Sequence[Trace], positions: Sequence[int]) -> str:
    """Explain why the texts differ at these tokens, and count gaps as small in the first run."""
    texts = [text_of(trace.rounds) for trace in traces]
    gap = widest_gap(*zip(texts, positions, strict=True))
    dtype = max((trace.header.dtype for trace in traces), key=rounding_nats)
    requests = [trace.header.request for trace in traces]
    words = verdict_words(verdict(requests, gap, rounding_nats(dtype)),
                          max(request.sampling.temperature for request in requests), gap, dtype)
    return f"{words} {near_tie_text(texts[0], rounding_nats(dtype))}".rstrip()


def first_difference(first: Trace, second: Trace) -> list[int] | None:
    """Return the token of each text that holds the first differing byte; None for the same text. For a text that ends
    first, that is its end."""
    texts = [list(map(as_bytes, RunText(trace.lines).pieces)) for trace in (first, second)]
    joined = [b"".join(tokens) for tokens in texts]
    if joined[0] == joined[1]:
        return None
    common = len(commonprefix(joined))
    return [next((position for position, end in enumerate(accumulate(map(len, tokens))) if end > common), len(tokens))
            for tokens in texts]


def _side(trace: Trace) -> Side:
    rounds = trace.rounds
    deepest = [int(depths(round_.tree.parents).max()) for round_ in rounds]
    shares = []
    for depth in range(1, min(MAX_DEPTHS, max(deepest)) + 1):
        reached = [len(round_.acceptance.keep) > depth for round_, deep in zip(rounds, deepest, strict=True)
                   if deep >= depth]
        shares.append(sum(reached) / len(reached))
    return {"rows": sum(len(round_.tree) for round_ in rounds) / len(rounds), "depths": shares}
