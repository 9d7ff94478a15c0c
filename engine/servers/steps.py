"""Reconstruct a server's steps from its report and the sizes of its chunks, and make rounds of them.

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
    """One step of a server."""

    written: int  # tokens added to the text, ≥ 1
    drafted: int
    cut: bool = False  # the text ended within the step, so its last token was a drafted one, too


def steps_of_chunks(sizes: Sequence[int], width: int) -> list[ServerStep]:
    """Return one step for each chunk. ``sizes``: tokens of the chunks, from the text's second token on; ``width``:
    tokens that the server drafts in every step, 0 if unknown."""
    return [ServerStep(size, max(width, size - 1)) for size in sizes if size]


def steps_of_report(sizes: Sequence[int], report: ServerReport) -> list[ServerStep] | None:
    """Return the steps that the server reported; None if it reported none, or if they do not fit the tokens."""
    if not 0 < len(report.accepted_per_step) <= sum(sizes):
        return None
    return _steps_matching_chunks(sizes, report) or _steps_from_report_alone(sum(sizes), report)


def _steps_matching_chunks(sizes: Sequence[int], report: ServerReport) -> list[ServerStep] | None:
    """Match each chunk with the next reported step; a one-token chunk that does not match is a step without a draft."""
    reported, steps = deque(zip(report.accepted_per_step, report.drafted_per_step, strict=True)), []
    for number, size in enumerate(sizes):
        accepted, drafted = reported[0] if reported else (-2, 0)
        cut = number == len(sizes) - 1 and len(reported) == 1 and 0 < size <= accepted
        if size == accepted + 1 or cut:
            steps.append(ServerStep(size, drafted, cut))
            reported.popleft()
        elif size == 1:
            steps.append(ServerStep(1, 0))
        elif size:
            return None
    return None if reported else steps


def _steps_from_report_alone(tokens: int, report: ServerReport) -> list[ServerStep] | None:
    """Return the reported steps if they add up to the text, whatever its chunks were."""
    written = [accepted + 1 for accepted in report.accepted_per_step]
    written[-1] -= sum(written) - tokens  # tokens after a stop token may be accepted, but are not written
    if not 1 <= written[-1] <= report.accepted_per_step[-1] + 1:
        return None
    return [ServerStep(size, drafted, size <= accepted)
            for size, drafted, accepted in zip(written, report.drafted_per_step, report.accepted_per_step, strict=True)]


def chain_round(index: int, start: int, tokens: Sequence[Token], step: ServerStep) -> Round:
    """Return a step as a round, a chain; rejected drafted tokens are unknown.

    Args:
        index: number of the round.
        start: length of the cache before the round.
        tokens: the root, the accepted tokens and the bonus token. If the step is ``cut``, the last one is a drafted
            child of the last kept row.
        step: the step that wrote them; at most ``MAX_DRAFTED`` of its drafted tokens become rows.
    """
    kept = len(tokens) - 1
    written = tokens if step.cut else tokens[:-1]
    size = max(1 + min(step.drafted, MAX_DRAFTED), len(written))
    unknown = np.full(size, np.nan, np.float32)
    ids, choice = np.full(size, UNKNOWN_TOKEN, np.int32), np.full(size, NOT_RECORDED, np.int32)
    ids[:len(written)] = [token.id for token in written]
    choice[:kept] = [token.id for token in tokens[1:]]
    chosen, offered, logprobs = unknown.copy(), unknown.copy(), unknown.copy()
    chosen[:kept] = [token.logprob for token in tokens[1:]]
    offered[1:len(written)] = chosen[:len(written) - 1]
    offered[0] = logprobs[0] = 0
    rows = np.arange(size, dtype=np.int32)
    tree = DraftTree(ids, np.maximum(rows - 1, 0), logprobs, np.minimum(rows, 1))
    verification = Verification(choice, chosen, unknown, unknown, offered, unknown)
    return Round(index, start, (), (), tree, verification, Acceptance(rows[:kept], tokens[-1].id))
