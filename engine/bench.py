"""`python -m engine.bench …` is `python -m engine bench …`, see ``commands/bench.py``."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("engine.commands.program").main(["bench", *sys.argv[1:]]))
