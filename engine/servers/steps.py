"""A server's steps, from its report and the sizes of the chunks that it sent, and the rounds that they are shown as.

A step writes the drafted tokens that it accepted and one of the target's own. The first token comes from reading the
prompt. A server may leave steps that drafted nothing out of its report; each of them wrote one token.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.recorder import UNKNOWN_TOKEN
from engine.records import Acceptance, DraftTree, Round, Verification
from engine.servers.answer import MAX_DRAFTED, ServerReport, Token
from engine.trace.reading import NOT_RECORDED


@dataclass(frozen=True)
class ServerStep:
    """One step: it wrote ``written`` tokens of the text, at least one, after drafting ``drafted``. ``cut``: the text
    ended before the step did, so its last token was a drafted one, too."""

    written: int
    drafted: int
    cut: bool = False


def steps_of_chunks(sizes: Sequence[int], width: int) -> list[ServerStep]:
    """The steps, taking each chunk for one. ``sizes`` are the numbers of tokens in the chunks, from the text's second
    token on; ``width`` is how many tokens the server drafts in every step, 0 if unknown."""
    return [ServerStep(size, max(width, size - 1)) for size in sizes if size]


def steps_of_report(sizes: Sequence[int], report: ServerReport) -> list[ServerStep] | None:
    """The steps that the server reported; None if it reported none, or if they do not fit the tokens: each wrote
    one at least."""
    if not 0 < len(report.accepted) <= sum(sizes):
        return None
    return _joined(sizes, report) or _counted(sum(sizes), report)


def _joined(sizes: Sequence[int], report: ServerReport) -> list[ServerStep] | None:
    """The steps if each chunk is one: a chunk of one token that no reported step explains drafted nothing. If both
    readings fit, the report comes first."""
    reported, steps = deque(zip(report.accepted, report.drafted, strict=True)), []
    for number, size in enumerate(sizes):
        kept, tried = reported[0] if reported else (-2, 0)
        cut = number == len(sizes) - 1 and len(reported) == 1 and 0 < size <= kept
        if size == kept + 1 or cut:
            steps.append(ServerStep(size, tried, cut))
            reported.popleft()
        elif size == 1:
            steps.append(ServerStep(1, 0))
        elif size:
            return None
    return None if reported else steps


def _counted(tokens: int, report: ServerReport) -> list[ServerStep] | None:
    """The steps if chunks hold several of them: from the report alone, provided that it has them all."""
    written = [kept + 1 for kept in report.accepted]
    written[-1] -= sum(written) - tokens  # tokens after a stop token may be accepted, but are not written
    if not 1 <= written[-1] <= report.accepted[-1] + 1:
        return None
    return [ServerStep(size, tried, size <= kept)
            for size, tried, kept in zip(written, report.drafted, report.accepted, strict=True)]


def chain_round(index: int, start: int, tokens: Sequence[Token], step: ServerStep) -> Round:
    """The round of a step, a chain. ``tokens`` are the root, the accepted tokens and the bonus token; rejected drafted
    tokens are unknown. ``start`` is the length of the cache before the round. If the end of the text cut the step, its
    last token is a drafted child of the last kept row. Its rows are those of the tokens, and of ``MAX_DRAFTED`` at
    most."""
    kept = len(tokens) - 1
    named = tokens if step.cut else tokens[:-1]
    size = max(1 + min(step.drafted, MAX_DRAFTED), len(named))
    unknown = np.full(size, np.nan, np.float32)
    ids, choice = np.full(size, UNKNOWN_TOKEN, np.int32), np.full(size, NOT_RECORDED, np.int32)
    ids[:len(named)] = [token.id for token in named]
    choice[:kept] = [token.id for token in tokens[1:]]
    chosen, offered, logprobs = unknown.copy(), unknown.copy(), unknown.copy()
    chosen[:kept] = [token.logprob for token in tokens[1:]]
    offered[1:len(named)] = chosen[:len(named) - 1]
    offered[0] = logprobs[0] = 0
    rows = np.arange(size, dtype=np.int32)
    tree = DraftTree(ids, np.maximum(rows - 1, 0), logprobs, np.minimum(rows, 1))
    verification = Verification(choice, chosen, unknown, unknown, offered, unknown)
    return Round(index, start, (), (), tree, verification, Acceptance(rows[:kept], tokens[-1].id))
