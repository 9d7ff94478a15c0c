"""A whole rig in one command.

The demo rig from nothing: tokenizer, target, drafters, prompt files, scores, model card; a rig with a published target
from that target's own answers: answers, drafters, model card.

    python -m recipes --rig demo

Every stage is seeded and goes on where it was stopped; what is finished is not done again (--again does).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from recipes.own_answers.shards import completion_marker

Stages = tuple[tuple[Path, tuple[str, ...]], ...]  # what a stage makes, and the module that makes it
RIG = Path("assets/demo")
DEMO: Stages = (
    (RIG / "target" / "tokenizer.json", ("recipes.tokenizer",)),
    (RIG / "target" / "training.json", ("recipes.target",)),
    (RIG / "small" / "training.json", (
        "recipes.target", "--small", "--out", "assets/demo/small", "--work", ".training/small")),
    *((RIG / drafter / "training.json", ("recipes.drafter", "--drafter", drafter))
      for drafter in ("math", "code", "all")),
    (RIG / "target" / "before.json", (
        "recipes.target", "--go-on", "--tokens", "0", "--finish-tokens", "1200000", "--finish-rate", "0.12",
        "--seed", "polish", "--work", ".training/polish")),
    *((RIG / drafter / "before.json", (
        "recipes.drafter", "--drafter", drafter, "--go-on", "--work", ".training/own"))
      for drafter in ("code", "all")),
    (RIG / "all2" / "training.json", ("recipes.drafter", "--drafter", "all", "--layout", "dflash2")),
    (Path("assets/prompts/check.jsonl"), ("recipes.prompt_files",)),
    (RIG / "README.md", ("recipes.card",)),
)
OWN = "recipes.own_answers"
SMOLLM2 = Path("assets/smollm2")
PUBLISHED: Stages = (
    (completion_marker("smollm2"), (f"{OWN}.writing", "--rig", "smollm2")),
    *((SMOLLM2 / drafter / "training.json", (f"{OWN}.phrases", "--drafter", drafter))
      for drafter in ("phrases", "prose", "code")),
    (SMOLLM2 / "README.md", (f"{OWN}.card",)),
)
STAGES: Mapping[str, Stages] = MappingProxyType({"demo": DEMO, "smollm2": PUBLISHED})


def main() -> int:
    """Run every stage whose result is missing, or all with --again; the exit status is that of the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m recipes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", choices=tuple(STAGES), default="demo")
    parser.add_argument("--again", action="store_true", help="run stages whose results exist, too")
    args = parser.parse_args()
    for result, module in STAGES[args.rig]:
        if result.exists() and not args.again:
            print(f"{result} exists", flush=True)
            continue
        print("python -m " + " ".join(module), flush=True)
        status = subprocess.run([sys.executable, "-m", *module], check=False).returncode
        if status:
            print("A stage failed; what was finished is kept.", file=sys.stderr)
            return status
    print(f"The rig {args.rig} is made.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
