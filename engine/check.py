"""`python -m engine.check …` is `python -m engine check …`, see ``commands/check.py``."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("engine.commands.program").main(["check", *sys.argv[1:]]))
