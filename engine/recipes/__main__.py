"""A whole rig in one command.

The demo rig from nothing: tokenizer, target, drafters, prompt files, scores, model card; a rig with a published target
from that target's own answers: answers, drafters, model card.

    python -m engine.recipes --rig demo

Every stage is seeded and goes on where it was stopped; what is finished is not done again (--again does).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from engine.recipes.places import enough

Stages = tuple[tuple[Path, tuple[str, ...]], ...]  # what a stage makes, and the module that makes it
RIG = Path("assets/demo")
DEMO: Stages = (
    (RIG / "target" / "tokenizer.json", ("engine.recipes.tokenizer",)),
    (RIG / "target" / "training.json", ("engine.recipes.target",)),
    (RIG / "small" / "training.json", ("engine.recipes.small",)),
    *((RIG / drafter / "training.json", ("engine.recipes.drafter", "--drafter", drafter))
      for drafter in ("math", "code", "all")),
    (RIG / "target" / "before.json", (
        "engine.recipes.target", "--go-on", "--tokens", "0", "--finish-tokens", "1200000", "--finish-rate", "0.12",
        "--seed", "polish", "--work", ".training/polish")),
    *((RIG / drafter / "before.json", (
        "engine.recipes.drafter", "--drafter", drafter, "--go-on", "--work", ".training/own"))
      for drafter in ("code", "all")),
    (Path("assets/prompts/check.jsonl"), ("engine.recipes.prompt_files",)),
    (RIG / "README.md", ("engine.recipes.card",)),
)
OWN = "engine.recipes.own_answers"
SMOLLM2 = Path("assets/smollm2")
PUBLISHED: Stages = (
    (enough("smollm2"), (f"{OWN}.writing", "--rig", "smollm2")),
    *((SMOLLM2 / drafter / "training.json", (f"{OWN}.phrases", "--drafter", drafter))
      for drafter in ("phrases", "prose", "code")),
    (SMOLLM2 / "README.md", (f"{OWN}.card",)),
)
STAGES: Mapping[str, Stages] = MappingProxyType({"demo": DEMO, "smollm2": PUBLISHED})


def made(rig: str, again: bool) -> int:
    """Run every stage whose result is missing, or all ``again``; the exit status of the first that fails, else 0."""
    for result, module in STAGES[rig]:
        if result.exists() and not again:
            print(f"{result} exists", flush=True)
            continue
        print("python -m " + " ".join(module), flush=True)
        done = subprocess.run([sys.executable, "-m", *module], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(import_module("engine.commands.program").main(["train", *sys.argv[1:]]))
