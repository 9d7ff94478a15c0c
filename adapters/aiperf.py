"""AIPerf's ``profile_export.jsonl`` (``spec_decode_acceptance``) as runs: ``python -m adapters.aiperf FILE FOLDER``.

AIPerf's record is the same for every engine, and has no trees: only how many tokens each step drafted, and how many of
them it accepted. Each step becomes a chain of unknown tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapters.imports import command, fitting, lines_of
from engine.recorder import UNKNOWN_TOKEN, Recorder

UNORDERED = "The server reported how often each number of tokens was accepted, and not in which order."


def convert(source: Path, folder: Path) -> list[Path]:
    """Write a run for each request that has a record; ValueError, in a sentence, if the file is not AIPerf's."""
    runs = []
    for number, (record, steps) in lines_of(source, "a profile_export.jsonl of AIPerf", _read):
        if steps:
            runs.append(folder / f"{source.stem}-{number}.jsonl.gz")
            _write(runs[-1], record, steps)
    if not runs:
        raise ValueError(f"{source.name} has no request with spec_decode_acceptance; run AIPerf with --export-level "
                         "records against a server that reports acceptance per request.")
    return runs


def _read(line: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[tuple[int, int]]]:
    record = line.get("spec_decode_acceptance") or {}
    return record, _steps(record) if record else []


def _steps(record: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the numbers of drafted and accepted tokens of each step."""
    accepted = record.get("per_step_accepted")
    if accepted is None:
        counts = {int(kept): int(count) for kept, count in record["acceptance_histogram"].items()}
        accepted = [kept for kept in sorted(counts) for _ in range(counts[kept])]
    drafted = record.get("per_step_drafted") or [record.get("num_spec_tokens") or max(accepted)] * len(accepted)
    return [fitting(int(kept), int(tried)) for tried, kept in zip(drafted, accepted, strict=True)]


def _write(path: Path, record: Mapping[str, Any], steps: list[tuple[int, int]]) -> None:
    note = "" if record.get("per_step_accepted") is not None else UNORDERED
    with Recorder(path, engine=str(record["engine"]), method="speculative", note=note, title=path.name.split(".")[0],
                  max_pending=len(steps) + 1) as recorder:
        for drafted, accepted in steps:
            recorder.chain([UNKNOWN_TOKEN] * drafted, accepted, UNKNOWN_TOKEN, root=UNKNOWN_TOKEN)


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], "adapters.aiperf", convert))
