"""`python -m engine VERB …`: the engine from the command line.

With --json the last line of the output is one JSON object for machines.
"""

from __future__ import annotations

import argparse
import json
import sys

from engine.errors import CanopyError
from engine.runtime.commands import COMMANDS


def parser() -> argparse.ArgumentParser:
    """The command line: a verb and its flags."""
    top = argparse.ArgumentParser(prog="python -m engine", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)
    for name, command in COMMANDS.items():
        command.add(verbs.add_parser(name, help=command.help))
    return top


def main() -> int:
    """Exit 0 when the verb did what it was asked, 1 with one sentence when it could not."""
    choice = parser().parse_args()
    command = COMMANDS[choice.verb]
    try:
        result = command.run(choice)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    print(command.summary(result))
    if choice.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
