"""The program `python -m engine VERB …`: it runs the verb that the words name, and reports any failure in one sentence.

Exit status: 0 done; 1 it failed, or what was checked does not hold; 2 the command line cannot be understood; 130
interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from engine.commands import VERBS
from engine.commands.flags import NOT_DONE, Verb
from engine.errors import CanopyError

NOT_UNDERSTOOD, INTERRUPTED = 2, 130
NAME = "python -m engine"
LONGEST_SAID = 2500  # characters of a sentence: two names of a rig have 2,048


class UsageError(CanopyError):
    """The command line cannot be understood."""


class CommandLine(argparse.ArgumentParser):
    """A parser that reports what is wrong in one sentence, and leaves it to the program to end the process."""

    def error(self, message: str) -> NoReturn:
        """"argument --limit: is '0'; …" becomes "--limit is '0'; …"."""
        flag, colon, rest = message.removeprefix("argument ").partition(": ")
        if not message.startswith("argument "):
            sentence = f"{message[:1].upper()}{message[1:]}"
        elif colon and rest.startswith("is "):
            sentence = f"{flag.split('/')[0]} {rest}"
        else:
            sentence = f"{flag.split('/')[0]}: {rest}"
        way_out = f"; see `{self.prog} --help`."
        raise UsageError(_on_one_line(sentence, LONGEST_SAID - len(way_out) - 1) + way_out)


def _on_one_line(sentence: str, longest: int = LONGEST_SAID) -> str:
    """The sentence on one line, cut to a length, since it may quote what was typed, newlines and megabytes included."""
    line = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in sentence)
    return line if len(line) <= longest else f"{line[:longest]}…"


def understood(line: CommandLine, words: Sequence[str]) -> argparse.Namespace:
    """Parse the words. ``--flag=--`` is refused first: argparse would take it for a missing value and not check its
    type."""
    bare = [word for word in words if word.startswith("--") and word.endswith("=--")]
    if bare:
        line.error(f"argument {bare[0].partition('=')[0]}: is '--'; it has to be a value")
    return line.parse_args(words)


def verb_named(name: str) -> Verb:
    """The verb of that name. Verbs load torch, so only this one is imported."""
    verb: Verb = import_module(f"engine.commands.{name}").VERB
    return verb


def top_parser() -> CommandLine:
    """The parser of the verb's name, without any verb's flags."""
    lines = "\n".join(f"  {name:10}{what}" for name, what in VERBS.items())
    top = CommandLine(prog=NAME, usage=f"{NAME} VERB [flags]", description="The engine from the command line.",
                      epilog=f"verbs:\n{lines}\n\n`{NAME} VERB --help` shows a verb's flags.",
                      formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("verb", metavar="VERB", choices=list(VERBS), help="what to do; see below")
    return top


def verb_parser(name: str) -> CommandLine:
    """The parser of a verb's flags."""
    verb = verb_named(name)
    parser = CommandLine(prog=f"{NAME} {name}", description=verb.description, allow_abbrev=False,
                       formatter_class=argparse.RawDescriptionHelpFormatter)
    verb.add(parser)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run what was typed, and return the exit status. Every expected failure is one sentence on stderr."""
    words = sys.argv[1:] if words is None else words
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals whose encoding lacks τ
    try:
        name = understood(top_parser(), words[:1]).verb
        choice = understood(verb_parser(name), words[1:])
        return run(verb_named(name), choice)
    except UsageError as error:
        return _said(error, NOT_UNDERSTOOD)
    except CanopyError as error:
        return _said(error, NOT_DONE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python reports the closed pipe at its end
        return NOT_DONE
    except OSError as error:
        return _said(f"{error.filename or 'A file'} cannot be read or written: {error.strerror or error}.", NOT_DONE)
    except KeyboardInterrupt as error:
        return _said(str(error) or "Interrupted.", INTERRUPTED)


def run(verb: Verb, choice: argparse.Namespace) -> int:
    """Run a verb, print its result, and return its exit status."""
    result = verb.run(choice)
    if text := verb.summary(result):
        print(text)
    if choice.json:
        print(json.dumps(result))
    return verb.status(result)


def _said(sentence: object, status: int) -> int:
    print(_on_one_line(str(sentence)), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
