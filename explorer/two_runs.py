"""Two runs compared, of any engines: where their texts and rounds first differ, and how many tokens each accepted.
Texts are compared as texts, since two engines may number their tokens differently."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from os.path import commonprefix
from typing import Any, NotRequired, TypedDict

from engine.decoding.tree import depths
from engine.errors import RequestError
from engine.lab.against_plain import RULE, near_tie_text, rounding_nats, text_of, verdict, verdict_words, widest_gap
from engine.records import Round
from engine.requests.limits import check_int
from engine.trace import RunText, Trace, as_bytes, tau
from explorer.browser_calls import Call, browser_call, named_fields

SIDES = ("first", "second")
MAX_DEPTHS = 64


class SideRound(TypedDict):
    """One round of a run: the rows that were verified, the tokens kept, and the depth of its tree."""

    index: int
    rows: int
    kept: int
    depth: int


class Side(TypedDict):
    """One of two runs: ``rows`` verified in a round on average, ``lengths``, the tokens kept by each round, ``depths``:
    see ``accepted_by_depth``."""

    tau: float
    rounds: int
    tokens: int
    rows: float
    lengths: list[int]
    depths: list[float]
    round: NotRequired[SideRound]


class TwoRuns(TypedDict):
    """The comparison of two runs: a summary (``said``) and the ``rule`` behind its verdict.

    ``texts_part``: the first differing token of each text (0-based). ``rounds_part``: the first round that kept
    different numbers of tokens. Null if there is none.
    """

    said: str
    rule: str
    same_prompt: bool
    same_text: bool
    texts_part: list[int] | None
    rounds_part: int | None
    sides: list[Side]


def two_runs_call(trace_of: Callable[[str], Trace]) -> Call:
    """The function of the browser that compares two runs that the page knows."""
    def compared(wanted: Mapping[str, Any]) -> TwoRuns:
        """{"first", "second"}: each {"run", "round": from 0, where two rounds are meant}. See ``two_runs``."""
        sides = [named_fields(wanted.get(side)) for side in SIDES]
        traces = [trace_of(str(side.get("run"))) for side in sides]
        answer = two_runs(*traces)
        for view, trace, side in zip(answer["sides"], traces, sides, strict=True):
            if side.get("round") is not None:
                number = check_int("The round", side["round"], 0, len(trace.entries) - 1)
                view["round"] = round_view(trace.entries[number].round)
        return answer
    return browser_call("two_runs", compared)


def two_runs(first: Trace, second: Trace) -> TwoRuns:
    """Compare two runs; RequestError if one has no rounds, or none that are known."""
    for side, trace in zip(SIDES, (first, second), strict=True):
        if not trace.entries:
            raise RequestError(f"The {side} run has no round to compare.")
        if trace.header.chunked:
            raise RequestError(f"The rounds of the {side} run are not known, since {trace.header.engine} does not "
                               "report them; there is nothing to compare round by round.")
    parted, sides = texts_part(first, second), [side_view(first), side_view(second)]
    lengths = [side["lengths"] for side in sides]
    asked, also_asked = ((trace.header.prompt, trace.header.turns, trace.header.thinking) for trace in (first, second))
    same_prompt = asked == also_asked
    why = _why((first, second), parted) if parted and same_prompt else ""
    rounds_part = next((number for number, pair in enumerate(zip(*lengths, strict=False)) if pair[0] != pair[1]), None)
    sentences = [] if same_prompt else ["The prompts differ, and so may everything else."]
    sentences.append("The texts are the same." if parted is None else
                     f"The texts first differ at token {parted[0] + 1} of the first and {parted[1] + 1} of the second.")
    if rounds_part is not None:
        kept = [length[rounds_part] for length in lengths]
        sentences.append(f"The rounds first differ at round {rounds_part + 1}, which kept {kept[0]} tokens in the "
                         f"first run and {kept[1]} in the second.")
    elif len(lengths[0]) == len(lengths[1]):
        sentences.append("Every round kept as many tokens as in the other run.")
    return {"said": " ".join(filter(None, [*sentences, why])), "same_prompt": same_prompt, "same_text": parted is None,
            "texts_part": parted, "rule": RULE if why else "", "rounds_part": rounds_part, "sides": sides}


def _why(traces: Sequence[Trace], positions: Sequence[int]) -> str:
    """Why the texts part at these tokens, and how often such gaps occur in the first, in sentences."""
    texts = [text_of(entry.round for entry in trace.entries) for trace in traces]
    gap = widest_gap(*zip(texts, positions, strict=True))
    dtype = max((trace.header.dtype for trace in traces), key=rounding_nats)
    requests = [trace.header.request for trace in traces]
    words = verdict_words(verdict(requests, gap, rounding_nats(dtype)),
                          max(request.sampling.temperature for request in requests), gap, dtype)
    return f"{words} {near_tie_text(texts[0], rounding_nats(dtype))}".rstrip()


def texts_part(first: Trace, second: Trace) -> list[int] | None:
    """The token of each text that holds the first byte in which they differ; None for the same text. For a text that
    ends first, that is its end."""
    texts = [_token_texts(trace) for trace in (first, second)]
    whole_texts = [b"".join(tokens) for tokens in texts]
    if whole_texts[0] == whole_texts[1]:
        return None
    common = len(commonprefix(whole_texts))
    return [next((position for position, end in enumerate(accumulate(map(len, tokens))) if end > common), len(tokens))
            for tokens in texts]


def _token_texts(trace: Trace) -> list[bytes]:
    """The bytes that each token adds to the text."""
    return list(map(as_bytes, RunText(trace.lines).pieces))


def side_view(trace: Trace) -> Side:
    """Sum up one of the runs."""
    rounds = [entry.round for entry in trace.entries]
    lengths = [len(round_.acceptance.keep) for round_ in rounds]
    return {"tau": tau(rounds), "rounds": len(rounds), "tokens": sum(lengths), "lengths": lengths,
            "rows": sum(len(round_.tree) for round_ in rounds) / len(rounds), "depths": accepted_by_depth(rounds)}


def accepted_by_depth(rounds: Sequence[Round]) -> list[float]:
    """For each depth from 1: of the rounds that drafted to that depth, the share that accepted to it."""
    views = list(map(round_view, rounds))
    shares = []
    for depth in range(1, min(MAX_DEPTHS, max((view["depth"] for view in views), default=0)) + 1):
        reached = [view["kept"] > depth for view in views if view["depth"] >= depth]
        shares.append(sum(reached) / len(reached))
    return shares


def round_view(round_: Round) -> SideRound:
    """Sum up one round."""
    return {"index": round_.index, "rows": len(round_.tree), "kept": len(round_.acceptance.keep),
            "depth": int(depths(round_.tree.parents).max())}
