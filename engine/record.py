"""Record the shipped lessons: runs of the rig at hand, with a title and what they teach.

    python -m engine.record --lessons assets/traces/lessons.json --out assets/traces

A lesson is a row of the JSON file: name, title, note, and the fields of an ask. Each is run twice and the second run
is kept, so that what is recorded is not a first touch of cold memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

from engine.errors import CanopyError
from engine.records import Ask, Sampling
from engine.runtime.live import LiveRig, serve
from engine.trace import Trace, dump, gather, recorded, tau

ASK_FIELDS = ("prompt", "method", "budget", "max_tokens", "split")


def ask_of(row: dict[str, Any]) -> Ask:
    """The ask of a lesson's row."""
    sampling = Sampling(row.get("temperature", 0.0), row.get("top_k", 0), row.get("top_p", 1.0), row.get("seed", 0))
    fields = {name: row[name] for name in ASK_FIELDS if name in row}
    return Ask(**fields, sampling=sampling, heads=tuple(row.get("heads", ())))


def record(live: LiveRig, row: dict[str, Any], today: str) -> Trace:
    """The lesson's run, the second of two."""
    ask = ask_of(row)
    gather(live.run(ask))
    return recorded(gather(live.run(ask)), row["title"], row["note"], today)


def main() -> int:
    """Record every row and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="demo")
    parser.add_argument("--lessons", type=Path, default=Path("assets/traces/lessons.json"))
    parser.add_argument("--out", type=Path, default=Path("assets/traces"))
    choice = parser.parse_args()
    try:
        live = serve(choice.rig)
        for row in json.loads(choice.lessons.read_text(encoding="utf8")):
            trace = record(live, row, date.today().isoformat())
            rounds = [entry.round for entry in trace.entries]
            dump(trace, choice.out / f"{row['name']}.jsonl.gz")
            print(f"{row['name']:18} {row['method']:15} τ {tau(rounds):5.2f} {len(rounds):3} rounds {trace.end.reason}")
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
