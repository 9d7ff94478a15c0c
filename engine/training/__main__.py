"""The whole demo rig from nothing, in one command: tokenizer, target, three heads, prompt files, scores, model card.

    python -m engine.training

Every stage is seeded and goes on where it was stopped; what is finished is not done again (--again does).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

RIG = Path("assets/demo")
STAGES: tuple[tuple[Path, tuple[str, ...]], ...] = (
    (RIG / "target" / "tokenizer.json", ("engine.training.tokenizer",)),
    (RIG / "target" / "training.json", ("engine.training.target",)),
    (RIG / "small" / "training.json", ("engine.training.small",)),
    *((RIG / head / "training.json", ("engine.training.drafter", "--head", head)) for head in ("math", "code", "all")),
    (RIG / "target" / "before.json", (
        "engine.training.target", "--go-on", "--tokens", "0", "--finish-tokens", "1200000", "--finish-rate", "0.12",
        "--seed", "polish", "--work", ".training/polish")),
    *((RIG / head / "before.json", (
        "engine.training.drafter", "--head", head, "--go-on", "--work", ".training/own")) for head in ("code", "all")),
    (Path("assets/prompts/check.jsonl"), ("engine.training.prompt_files",)),
    (RIG / "README.md", ("engine.training.card",)),
)


def main() -> int:
    """Run every stage whose result is missing; the exit status of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="run stages whose results exist, too")
    again = parser.parse_args().again
    for result, module in STAGES:
        if result.exists() and not again:
            print(f"{result} exists", flush=True)
            continue
        print("python -m " + " ".join(module), flush=True)
        done = subprocess.run([sys.executable, "-m", *module], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
