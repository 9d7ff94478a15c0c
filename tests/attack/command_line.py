"""Hostile command lines: every verb and the page, every flag, with values of every kind and files of every content. The
words are understood as a person's are, and all is done that comes before a model runs; a few go to a real process."""

import argparse
import inspect
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from random import Random
from types import MappingProxyType, ModuleType
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import app
from engine.commands import VERBS, bench, generate, program, sweep
from engine.commands.program import NOT_UNDERSTOOD, UsageError
from engine.commands.record import lessons_of, read_lessons
from engine.errors import CanopyError, ResultsError
from engine.lab.settings import check, file_of, measuring_order, prompt_set
from engine.lab.store import Store
from engine.measure.whatif import text_of_run
from engine.requests.rig_names import rig_names
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import load
from explorer.security.gate import hosts_of
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.engine.commands.test_words import HOSTILE, NO_PATHS, PAGE, kind, parser_of

FILES_OF_A_SWEEP = ("--prompts", "--out", "--csv", "--runs-csv", "--report")
FILES = ("@file", "@new", "@beside")
TABLE = "a table"
ONE_IN_A_PROCESS = 5000  # cases, the next that is refused: a process takes seconds
SOUND_RIGS = {"demo", "assets/demo", *rig_names()}  # which may be here, and take long to load
SOUND: Mapping[str, tuple[str, ...]] = MappingProxyType({  # by the name of a flag's type
    "number": ("0", "1", "7", "64", "+3", "0.5", "1e0", ".3"),
    "budget_or_auto": ("auto", "0", "64"), "budget_words": ("16", "4,16", "auto"),
    "name": ("demo", "bench", "check", "math", "nosuch", "x::ngram", "::", "@file", "@folder", "assets/demo",
             "@pipe", "/dev/zero"),
    "text": ("hi", "two words", "--"), "turn": ("user:hi", "system:", "assistant:x"),
    "readable_file": ("@file", "@trace", "assets/traces/lessons.json", "@pipe", "/dev/zero"),
    "readable": ("@folder", "@trace", "@pipe", "/dev/zero"),
    "writable_file": ("@new", "@beside", "@file", "/dev/null", "@link", "@pipe"), "folder": ("@folder",),
    "_rig": ("demo", "x::ngram", "assets/demo", "http://127.0.0.1:1", "http://a:b@c", "HTTP://"),
    "_address": ("127.0.0.1", "0.0.0.0", "::1"),
    "_credentials": ("ada:lovelace", "a:b:c"), "_proxy": ("x.example:80",), "_root_path": ("/canopy", "a/b", "/")})
CONTENTS = st.one_of(
    st.binary(max_size=60), st.sampled_from((
        b"", b"{", b"[]", b"{}", b"null", b"[1]", b'{"prompt":3}\n', b'{"prompt":"hi"}\n', b'{"prompt":""}\n',
        b"\xff\xfe",
        b'{"prompt":"hi","domain":7}\n', b'{"title":"x","heads":["../x"]}', b'[{"name":"x"}]', b"[" * 5000,
        b'{"title":"x","heads":["a"],"defaults":{"1":["a"]}}', b'{"prompt":"\\ud800"}\n', b"9" * 5000, b"NaN", b"1e999",
        b'[{"name":"x","title":"t","note":"n","prompt":"p","budget":1e400}]',
        b'[{"name":"x","title":"t","note":"n","prompt":"p","temperature":NaN}]')))
WORDS = st.one_of(
    st.sampled_from((*HOSTILE, *NO_PATHS)), st.text(max_size=12), st.integers().map(str), st.floats().map(str),
    st.text(st.characters(categories=("Cs", "Cc", "Cf", "Nd", "Zs")), max_size=6))


@cache
def flags_of(verb: str) -> list[argparse.Action]:
    """The flags of a verb, or of the page."""
    return [action for action in parser_of(verb)._actions if action.option_strings and action.dest != "help"]


def sound(action: argparse.Action) -> tuple[str, ...]:
    """Words that such a flag takes, or nearly."""
    if kind(action) == "one_of":
        return tuple(inspect.getclosurevars(action.type).nonlocals["words"])  # type: ignore[arg-type]
    return tuple(action.choices) if action.choices else SOUND[kind(action)]


def words_of(verb: str, random: Random, odd: Sequence[str]) -> list[str]:
    """A command line of that verb: sound in most of its words."""
    words, actions = [] if verb == PAGE else [verb], flags_of(verb)
    needed = [action for action in actions if action.required and random.random() < 0.9]
    for action in [*needed, *random.choices(actions, k=random.randrange(5))]:
        flag = random.choice(action.option_strings)
        if action.nargs == 0:
            words.append(flag)
            continue
        count = random.randrange(1, 4) if action.nargs in ("+", "*") else 1
        values = [random.choice(sound(action) if random.random() < 0.65 else odd) for _ in range(count)]
        words += [f"{flag}={values[0]}", *values[1:]] if random.random() < 0.5 else [flag, *values]
    if random.random() < 0.05:
        words.insert(random.randrange(len(words) + 1), random.choice(odd))
    return words


def checked(verb: ModuleType, choice: argparse.Namespace) -> int:
    """What the verb does before a model runs."""
    name = next(name for name in VERBS if program.verb_named(name) is verb)
    if name != "sweep" and getattr(choice, "rig", "demo") not in SOUND_RIGS:  # anatomy needs none
        load_rig(choice.rig, "bfloat16")
    if name in CHECKS:
        CHECKS[name](choice)
    return 0


@cache
def live() -> Rig:
    """The demo rig, once."""
    return load_rig("demo", "bfloat16")


def _generate(choice: argparse.Namespace) -> None:
    generate.answer_of(live(), choice).close()


def _bench(choice: argparse.Namespace) -> None:
    plan = bench.plan_of(choice)
    for cell in list(measuring_order(plan))[:len(plan.settings)]:
        live().run(plan.ask(cell))


def _sweep(choice: argparse.Namespace) -> None:
    sweep.must_differ(choice)
    plan = sweep.latest(choice.out)[1] if choice.resume else sweep.plan_of(choice)
    check(plan, live().methods, tuple(live().drafters))
    tables = [path for path in (choice.csv, choice.runs_csv, choice.report) if path and _may_be_written(path)]
    wanted = dict.fromkeys(tables, TABLE.encode())
    if not choice.resume:
        wanted[file_of(choice.prompts)] = file_of(choice.prompts).read_bytes()
    for path in tables:
        sweep.write(path, TABLE)
    if _may_be_written(choice.out):
        with suppress(ResultsError):
            Store(choice.out).close()
    if any(not path.exists() or path.read_bytes() != content for path, content in wanted.items()):
        raise BrokenError("A file that is read, or another one to write, was written over.")


def _may_be_written(path: Path) -> bool:
    return path.is_absolute() and path.is_relative_to(tempfile.gettempdir())


def _what_if(choice: argparse.Namespace) -> None:
    if choice.trace:
        text_of_run(load(choice.trace))


def _pace(choice: argparse.Namespace) -> None:
    for name in choice.prompts:
        prompt_set(name, choice.limit)


CHECKS: Mapping[str, Callable[[argparse.Namespace], Any]] = MappingProxyType({
    "generate": _generate, "bench": _bench, "sweep": _sweep, "whatif": _what_if, "pace": _pace,
    "check": lambda choice: prompt_set(choice.prompts, choice.skip + choice.limit),
    "doctor": lambda choice: prompt_set(choice.prompts, choice.limit), "record": lambda choice: read_lessons(
        choice.lessons or lessons_of(choice.rig))})


class CommandLines(Area):
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._count = 0
        place = Path(self._folder.name)
        self._trace = (Path(__file__).parents[2] / "assets" / "traces" / "plain.jsonl.gz").read_bytes()
        self._places = {"@new": place / "new.csv", "@beside": place / "new.csv-wal", "@link": place / "link",
                        "@folder": place / "folder", "@file": place / "file", "@trace": place / "plain.jsonl.gz",
                        "@pipe": place / "pipe"}

    def values(self) -> SearchStrategy[Any]:
        return st.tuples(WORDS, CONTENTS)

    def case(self, random: Random, values: Sequence[Any]) -> Case:
        """Words, and the content of the file that they may name."""
        if random.random() < 0.01:
            named = random.sample(FILES_OF_A_SWEEP, 2)
            return {"words": ["sweep", *(word for flag in named for word in (flag, random.choice(FILES)))],
                    "file": '{"prompt":"hi"}\n'}
        words, contents = zip(*values, strict=True)
        verb = random.choice((*VERBS, PAGE))
        return {"words": words_of(verb, random, words), "file": random.choice(contents).decode("latin1")}

    def trial(self, case: Case) -> None:
        self._lay_out(case)
        words = [self._typed(word) for word in case["words"]]
        is_verb = bool(words) and words[0] in VERBS
        status, printed = self._verb(words) if is_verb else self._page(words)
        if status:
            check_sentence(printed.removesuffix("\n"), 3000)
        if status not in (0, 1, 2) or (not status and printed):
            raise BrokenError(f"Exit status {status}, said {printed[:200]!r}")
        self._count += 1
        if status and is_verb and self._count > ONE_IN_A_PROCESS and not any("\0" in word for word in words):
            self._count = 0
            self._in_a_process(words, status)

    def check_all(self) -> None:
        if not Path("/dev/null").is_char_device():
            raise BrokenError("A device was replaced.")

    def close(self) -> None:
        self._folder.cleanup()

    def _lay_out(self, case: Case) -> None:
        """Every case finds the same files, whatever former ones removed, replaced or left behind."""
        shutil.rmtree(self._folder.name, ignore_errors=True)
        self._places["@folder"].mkdir(parents=True)
        self._places["@link"].symlink_to("/dev/null")
        os.mkfifo(self._places["@pipe"])
        content = case["file"].encode("latin1")
        for name, path, data in (("@file", self._places["@file"], content), ("@trace", self._places["@trace"],
                                 self._trace), ("@folder", self._places["@folder"] / "rig.json", content)):
            if any(name in word for word in case["words"]):
                path.write_bytes(data)

    def _typed(self, word: str) -> str:
        flag, equals, value = word.partition("=")
        if equals and value in self._places:
            return f"{flag}={self._places[value]}"
        return str(self._places.get(word, word))

    def _verb(self, words: list[str]) -> tuple[int, str]:
        printed = io.StringIO()
        with patch.object(program, "run", checked), redirect_stderr(printed), redirect_stdout(io.StringIO()):
            try:
                status = program.main(words)
            except SystemExit as error:  # of --help
                status = int(error.code or 0)
        return status, printed.getvalue()

    def _page(self, words: list[str]) -> tuple[int, str]:
        try:
            with redirect_stdout(io.StringIO()):
                wanted = app.flags().understand(words)
            hosts_of(wanted.host, wanted.allow_host)
            app.follow_of(wanted)
            app.why_closed(wanted)
        except UsageError as error:
            return NOT_UNDERSTOOD, f"{error}\n"
        except CanopyError as error:
            return 1, f"{error}\n"
        except SystemExit as error:
            return int(error.code or 0), ""
        return 0, ""

    def _in_a_process(self, words: list[str], status: int) -> None:
        """The same in a process of its own, to its end."""
        typed = [word.encode("utf8", "surrogatepass") if any(0xD800 <= ord(sign) < 0xDC80 or ord(sign) > 0xDCFF
                 for sign in word if 0xD800 <= ord(sign) < 0xE000) else os.fsencode(word) for word in words]
        done = subprocess.run([sys.executable.encode(), b"-m", b"engine", *typed], capture_output=True, timeout=300,
                              check=False)
        printed = done.stderr.decode("utf8", "replace")
        check_sentence(printed.removesuffix("\n"), 3000)
        if done.returncode != status:
            raise BrokenError(f"In a process of its own: {done.returncode} where {status} was, said {printed[-300:]!r}")
