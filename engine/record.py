"""`python -m engine.record …` is `python -m engine record …`, see ``commands/record.py``."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("engine.commands.program").main(["record", *sys.argv[1:]]))
