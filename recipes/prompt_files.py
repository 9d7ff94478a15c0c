"""Writes the shipped prompt files from the test split, which training never uses.

    python -m recipes.prompt_files --out assets/prompts
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from recipes.corpus.items import Item
from recipes.corpus.mixture import MAKERS, unseen_items


def write(path: Path, items: Sequence[Item]) -> None:
    """Write one JSON object per line: prompt and category."""
    rows = [json.dumps({"prompt": item.prompt, "category": item.domain}, ensure_ascii=False) for item in items]
    path.write_text("\n".join(rows) + "\n", encoding="utf8")


def interleave(domains: Sequence[str], count: int, seed: str) -> list[Item]:
    """Return items of the domains in turn, so that the first lines of the file, however many, are a fair sample."""
    return [item for together in zip(*(unseen_items(domain, count, seed) for domain in domains), strict=True)
            for item in together]


def main() -> None:
    """Write one file a domain, one for the benchmark and one for the losslessness check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("assets/prompts"))
    out = parser.parse_args().out
    for domain in MAKERS:
        write(out / f"{domain}.jsonl", unseen_items(domain, 32, "prompts"))
    write(out / "bench.jsonl", interleave(("math", "code"), 16, "bench"))
    write(out / "check.jsonl", interleave(list(MAKERS), 50, "check"))


if __name__ == "__main__":
    main()
