"""`python -m engine VERB …`: the engine from the command line, see ``commands/``."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("engine.commands.program").main())
