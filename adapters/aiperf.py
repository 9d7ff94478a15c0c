"""AIPerf's ``profile_export.jsonl`` (``spec_decode_acceptance``) as runs: ``python -m adapters.aiperf FILE FOLDER``.

AIPerf's record is the same for every engine and knows no trees: of each step how many tokens were drafted and how many
of them accepted. Each step becomes a chain of tokens that nobody knows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.recorder import UNKNOWN_TOKEN, Recorder

UNORDERED = "The server reported how often each number of tokens was accepted, and not in which order."


def convert(source: Path, folder: Path) -> list[Path]:
    """A run for each request that has a record. ValueError, in a sentence, where the file is none of AIPerf's."""
    runs = []
    for number, line in enumerate(source.read_text("utf8").splitlines(), start=1):
        try:
            record = json.loads(line).get("spec_decode_acceptance")
            steps = _steps(record) if record else []
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{source.name} is not a profile_export.jsonl of AIPerf, or is damaged: line {number} "
                             f"cannot be read ({error}).") from error
        if steps:
            runs.append(folder / f"{source.stem}-{number}.jsonl.gz")
            _write(runs[-1], record, steps)
    if not runs:
        raise ValueError(f"{source.name} has no request with spec_decode_acceptance; run AIPerf with --export-level "
                         "records against a server that reports acceptance per request.")
    return runs


def _steps(record: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Drafted and accepted tokens of each step."""
    accepted = record.get("per_step_accepted")
    if accepted is None:
        counts = {int(kept): int(count) for kept, count in record["acceptance_histogram"].items()}
        accepted = [kept for kept in sorted(counts) for _ in range(counts[kept])]
    drafted = record.get("per_step_drafted") or [record.get("num_spec_tokens") or max(accepted)] * len(accepted)
    steps = [(int(tried), int(kept)) for tried, kept in zip(drafted, accepted, strict=True)]
    if any(not 0 <= kept <= tried for tried, kept in steps):
        raise ValueError("a step that accepts more than it drafted")
    return steps


def _write(path: Path, record: Mapping[str, Any], steps: list[tuple[int, int]]) -> None:
    note = "" if record.get("per_step_accepted") is not None else UNORDERED
    with Recorder(path, engine=str(record["engine"]), method="speculative", note=note, title=path.name.split(".")[0],
                  most_waiting=len(steps) + 1) as recorder:
        for drafted, accepted in steps:
            recorder.chain([UNKNOWN_TOKEN] * drafted, accepted, UNKNOWN_TOKEN, root=UNKNOWN_TOKEN)


def main(words: list[str]) -> int:
    """The command line."""
    if len(words) != 2:
        print("python -m adapters.aiperf profile_export.jsonl FOLDER", file=sys.stderr)
        return 2
    try:
        runs = convert(Path(words[0]), Path(words[1]))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(runs)} runs in {words[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
