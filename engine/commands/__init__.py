"""The command line: `python -m engine VERB …`.

A verb is a module of its name: ``add`` adds its flags to a parser; ``run`` does the work, prints its progress and
returns an ``Outcome``, or raises CanopyError with the reason why it cannot; the docstring is the text of --help.

``program.py`` parses what was typed, and turns errors into a sentence and an exit status; ``flags.py`` declares each
shared flag once and checks values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from engine.machine.threads import configure_openmp

configure_openmp()  # before any file of this room imports torch

VERBS: Mapping[str, str] = MappingProxyType({
    "generate": "answer one prompt and stream the text",
    "bench": "how fast, and where the time of a round goes",
    "check": "is it lossless? every method's text against plain decoding's",
    "sweep": "which method and node budget are fastest here: measured, and kept in one file",
    "record": "make the shipped recordings",
    "anatomy": "where a tree pays: what each proposal and row of recorded runs earned",
    "predict": "what rounds would cost on another machine, from published figures, and flags to paste",
    "whatif": "τ of every method at every budget from one run",
    "doctor": "why is τ low? checks of every drafter",
    "fetch": "get a rig's checkpoints and make them ready",
})


@dataclass(frozen=True)
class Outcome:
    """What a verb leaves: what --json prints, what a person reads at the end, and whether it failed."""

    result: dict[str, Any]
    text: str
    failed: bool = False


def aligned(rows: Iterable[Sequence[object]]) -> str:
    """Format rows as a table: the first column to the left, the others to the right; None is an empty cell."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = []
    for row in texts:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())
    return "\n".join(lines)
