"""`python -m engine.sweep …` is `python -m engine sweep …`, see ``commands/sweep.py``."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("engine.commands.program").main(["sweep", *sys.argv[1:]]))
