"""The program `python -m engine VERB …`: it runs the verb that the words name, and reports any failure in one sentence.

Exit status: 0 done; 1 it failed, or what was checked does not hold; 2 the command line cannot be understood; 130
interrupted.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import NoReturn

from engine.commands import VERBS
from engine.errors import CanopyError
from engine.machine.threads import exit_now

DONE, FAILED, USAGE_ERROR, INTERRUPTED = 0, 1, 2, 130
NAME = "python -m engine"
MAX_SENTENCE_LENGTH = 2500  # characters: two names of a rig have 2,048


class UsageError(CanopyError):
    """The command line cannot be understood."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Prints the description unchanged, and the default after a flag's help."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if default is None or default is False or default in ([], argparse.SUPPRESS):
            return action.help
        if default is True:  # a switch that this verb turns on by itself
            return f"{action.help} (always)"
        shown = " ".join(map(str, default)) if isinstance(default, list) else default
        return f"{action.help} (default: {shown})"


class CommandLine(argparse.ArgumentParser):
    """A parser that raises UsageError with one sentence instead of ending the process."""

    def __init__(self, prog: str, description: str | None, usage: str | None = None, epilog: str | None = None) -> None:
        super().__init__(prog, usage, description, epilog, formatter_class=HelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError: "argument --limit: is '0'; …" becomes "--limit is '0'; …"."""
        flag, colon, rest = message.removeprefix("argument ").partition(": ")
        if not message.startswith("argument "):
            sentence = f"{message[:1].upper()}{message[1:]}"
        elif colon and rest.startswith("is "):
            sentence = f"{flag.split('/')[0]} {rest}"
        else:
            sentence = f"{flag.split('/')[0]}: {rest}"
        way_out = f"; see `{self.prog} --help`."
        raise UsageError(_on_one_line(sentence, MAX_SENTENCE_LENGTH - len(way_out) - 1) + way_out)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse the words, or raise UsageError. argparse would take ``--flag=--`` for a missing value."""
        without_value = [word for word in argv if word.startswith("--") and word.endswith("=--")]
        if without_value:
            self.error(f"argument {without_value[0].partition('=')[0]}: is '--'; it has to be a value")
        return self.parse_args(argv)


def _on_one_line(sentence: str, max_length: int = MAX_SENTENCE_LENGTH) -> str:
    """Return the sentence on one line, cut to a length, because it may quote what was typed."""
    line = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in sentence)
    return line if len(line) <= max_length else f"{line[:max_length]}…"


def verb_named(name: str) -> ModuleType:
    """Import the verb of that name. Verbs load torch, so only this one is imported."""
    return import_module(f"engine.commands.{name}")


def top_parser() -> CommandLine:
    lines = "\n".join(f"  {name:10}{what}" for name, what in VERBS.items())
    top = CommandLine(NAME, "The engine from the command line.", usage=f"{NAME} VERB [flags]",
                      epilog=f"verbs:\n{lines}\n\n`{NAME} VERB --help` shows a verb's flags.")
    top.add_argument("verb", metavar="VERB", choices=list(VERBS), help="what to do; see below")
    return top


def verb_parser(name: str) -> CommandLine:
    verb = verb_named(name)
    parser = CommandLine(f"{NAME} {name}", verb.__doc__)
    verb.add(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return parser


def enter() -> NoReturn:
    """Run the typed verb, and exit with its status."""
    exit_now(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was typed, and return the exit status. Every expected failure is one sentence on stderr."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals whose encoding lacks τ
    try:
        name = top_parser().parse(argv[:1]).verb
        args = verb_parser(name).parse(argv[1:])
        return run(verb_named(name), args)
    except UsageError as error:
        return _fail(error, USAGE_ERROR)
    except CanopyError as error:
        return _fail(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python reports the closed pipe at its end
        return FAILED
    except OSError as error:
        return _fail(f"{error.filename or 'A file'} cannot be read or written: {error.strerror or error}.")
    except KeyboardInterrupt as error:
        return _fail(str(error) or "Interrupted.", INTERRUPTED)


def run(verb: ModuleType, args: argparse.Namespace) -> int:
    """Run a verb, print its outcome, and return its exit status."""
    outcome = verb.run(args)
    print(outcome.text)
    if args.json:
        print(json.dumps(outcome.result))
    return FAILED if outcome.failed else DONE


def _fail(sentence: object, status: int = FAILED) -> int:
    print(_on_one_line(str(sentence)), file=sys.stderr)
    return status
