"""The command line: `python -m engine VERB …`. Each verb is a module, which adds its flags, runs, and sums up.

``program.py`` parses what was typed, and turns errors into a sentence and an exit status; ``flags.py`` declares each
flag once, and ``values.py`` checks its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.machine.threads import settle

settle()  # before any file of this room imports torch

VERBS: Mapping[str, str] = MappingProxyType({
    "generate": "answer one prompt and stream the text",
    "bench": "how fast, and where the time of a round goes",
    "check": "is it lossless? every method's text against plain decoding's",
    "sweep": "which method and node budget are fastest here: measured, and kept in one file",
    "record": "record the shipped lessons",
    "anatomy": "where a tree pays: what each proposal and row of recorded runs earned",
    "predict": "what rounds would cost on another machine, from published figures, and flags to paste",
    "whatif": "τ of every method at every budget from one run",
    "doctor": "why is τ low? checks of every drafter",
    "pace": "budget auto against every fixed budget, and predicted against measured speed",
    "fetch": "get a rig's checkpoints and make them ready",
})
