"""`python -m engine VERB …`: the engine from the command line, see ``commands/``."""

import signal
from importlib import import_module

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during an import ends the process without a traceback
    program = import_module("engine.commands.program")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program.enter()
