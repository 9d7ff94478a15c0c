"""Finds which tokens of an answer each step of the server wrote, from its report and from the sizes of its chunks.

A step writes the drafted tokens that it accepted and one of the target's own. The first token comes from reading the
prompt. A server may leave steps that drafted nothing out of its report; each of them wrote one token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from engine.servers.report import ServerReport


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


def fits(steps: Sequence[ServerStep], report: ServerReport | None) -> bool:
    """Whether the server's sums are those of these steps."""
    accepted = sum(step.written - 1 for step in steps)
    return report is not None and (report.steps, report.kept) == (len(steps), accepted)


def steps_of_report(sizes: Sequence[int], report: ServerReport) -> list[ServerStep] | None:
    """The steps that the server reported; None where it reported none, or where they do not fit the tokens: each wrote
    one at least."""
    if not 0 < len(report.accepted) <= sum(sizes):
        return None
    return _joined(sizes, report) or _counted(sum(sizes), report)


def _counted(tokens: int, report: ServerReport) -> list[ServerStep] | None:
    """The steps where chunks hold several of them: from the report alone, provided that it has them all."""
    written = [kept + 1 for kept in report.accepted]
    written[-1] -= sum(written) - tokens  # tokens after a stop token may be accepted, but are not written
    if not 1 <= written[-1] <= report.accepted[-1] + 1:
        return None
    return [ServerStep(size, tried, size <= kept)
            for size, tried, kept in zip(written, report.drafted, report.accepted, strict=True)]


def _joined(sizes: Sequence[int], report: ServerReport) -> list[ServerStep] | None:
    """The steps where each chunk is one: a chunk of one token that no reported step explains drafted nothing. Where
    both readings fit, the report comes first."""
    told, found = deque(zip(report.accepted, report.drafted, strict=True)), []
    for place, size in enumerate(sizes):
        kept, tried = told[0] if told else (-2, 0)
        cut = place == len(sizes) - 1 and len(told) == 1 and 0 < size <= kept
        if size == kept + 1 or cut:
            found.append(ServerStep(size, tried, cut))
            told.popleft()
        elif size == 1:
            found.append(ServerStep(1, 0))
        elif size:
            return None
    return None if told else found
