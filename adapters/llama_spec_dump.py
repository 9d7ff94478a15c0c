"""Files that a llama.cpp writes with ``LLAMA_SPEC_DUMP`` as runs: ``python -m adapters.llama_spec_dump FILE FOLDER``.

A fork of llama.cpp (llama.cpp-tq3, pull request 83) writes a line for each verification: the drafted tokens, their
probabilities, the likeliest other tokens (``LLAMA_SPEC_DUMP_TOPK``), and how many were accepted. It does not hold the
root and the bonus token. Each sequence becomes a run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adapters.imports import command, fitting, lines_of
from engine.recorder import UNKNOWN_TOKEN, Recorder

Step = Mapping[str, Any]


def convert(source: Path, folder: Path) -> list[Path]:
    """Write a run for each sequence; ValueError, in a sentence, if the file is not such a dump."""
    sequences: dict[int, list[Step]] = {}
    for _, step in lines_of(source, "a file of LLAMA_SPEC_DUMP", _checked):
        sequences.setdefault(step["seq"], []).append(step)
    if not sequences:
        raise ValueError(f"{source.name} is empty; nothing was drafted while it was written.")
    runs = {folder / f"{source.stem}-{sequence}.jsonl.gz": steps for sequence, steps in sequences.items()}
    for path, steps in runs.items():
        _write(path, steps)
    return list(runs)


def _checked(step: Step) -> Step:
    fitting(int(step["n_accepted"]), len(step["pos"]))
    return {**step, "seq": int(step["seq"])}


def _write(path: Path, steps: Sequence[Step]) -> None:
    with Recorder(path, engine="llama.cpp", method="speculative", title=path.name.split(".")[0],
                  max_pending=len(steps) + 1) as recorder:
        for step in steps:
            drafted = step["pos"]
            logprobs = [0.0, *(float(token["logp"]) for token in drafted)]
            recorder.chain([int(token["tok"]) for token in drafted], int(step["n_accepted"]), UNKNOWN_TOKEN,
                           root=UNKNOWN_TOKEN, node_logprobs=logprobs, drafts=_lattice(drafted))


def _lattice(drafted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the lattice of the likeliest tokens at each depth, as many as every depth has."""
    ranks = min((len(token.get("top", ())) for token in drafted), default=0)
    if not ranks:
        return []
    tops = [token["top"][:ranks] for token in drafted]
    return [{"tokens": [[int(token["tok"]) for token in top] for top in tops],
             "logprobs": [[math.log(token["p"]) if token["p"] > 0 else -math.inf for token in top] for top in tops]}]


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], "adapters.llama_spec_dump", convert))
