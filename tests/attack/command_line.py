"""Hostile command lines: every verb and the page, every flag, values and files of every kind. The words are parsed as a
person's are, and everything is done that comes before a model runs."""

import argparse
import inspect
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

import app
from engine.commands import VERBS, bench, generate, program, sweep
from engine.commands.program import USAGE_ERROR, UsageError
from engine.commands.record import plans_file, read_plans
from engine.errors import CanopyError
from engine.lab.settings import check, measuring_order, prompt_set
from engine.measure.whatif import text_of_run
from engine.requests.rig_names import rig_names
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import load
from explorer.security.gate import hosts_of
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.attack.strategies import mutated_json
from tests.engine.commands.test_words import HOSTILE, NO_PATHS, PAGE, kind, parser_of

KNOWN_RIGS = {"demo", "assets/demo", *rig_names()}  # valid, but not loaded: some are large
VALID_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType({  # type of a flag: its valid words
    "number": ("0", "1", "7", "64", "+3", "0.5", "1e0", ".3", "1,2", "1:2, 3:-4"),
    "budget_or_auto": ("auto", "0", "64"),
    "parse_name": ("demo", "bench", "check", "math", "nosuch", "x::ngram", "::", "@file", "@folder", "assets/demo"),
    "parse_text": ("hi", "two words", "--"), "prompt": ("hi", "-", "--"),
    "parse_turn": ("user:hi", "system:", "assistant:x"),
    "readable_file": ("@file", "@trace", "assets/traces/lessons.json"), "readable": ("@folder", "@trace"),
    "writable_file": ("@new", "@file"), "parse_folder": ("@folder",),
    "_rig": ("demo", "x::ngram", "assets/demo", "http://127.0.0.1:1", "http://a:b@c", "HTTP://"),
    "_address": ("127.0.0.1", "0.0.0.0", "::1"),
    "_credentials": ("ada:lovelace", "a:b:c"), "proxy_address": ("x.example:80",),
    "frame_origin": ("https://x.example", "null"),
    "_root_path": ("/canopy", "a/b", "/"), "Path": ("@folder", "@new", "@file")})
LESSON = {"name": "x", "title": "t", "note": "n", "prompt": "p", "budget": 8, "temperature": 0.5}
CONTENTS = st.binary(max_size=60) | st.sampled_from((b"", b"{", b"[" * 5000, b"9" * 5000, b"NaN")) | st.one_of(
    mutated_json({"prompt": "hi", "domain": "x"}), mutated_json([LESSON]),
    mutated_json({"title": "x", "heads": ["a"], "defaults": {"1": ["a"]}})).map(json.dumps).map(str.encode)
WORDS = (st.sampled_from((*HOSTILE, *NO_PATHS)) | st.text(max_size=12) | st.integers().map(str) | st.floats().map(str)
         | st.text(st.characters(categories=("Cs", "Cc", "Cf", "Nd", "Zs")), max_size=6))


@cache
def flags_of(verb: str) -> list[argparse.Action]:
    """Return the flags of a verb, or of the page."""
    return [action for action in parser_of(verb)._actions if action.option_strings and action.dest != "help"]


def valid_words(action: argparse.Action) -> tuple[str, ...]:
    """Return values that the flag accepts, or nearly accepts."""
    if kind(action) == "one_of":
        return tuple(inspect.getclosurevars(action.type).nonlocals["words"])  # type: ignore[arg-type]
    return tuple(action.choices) if action.choices else VALID_WORDS[kind(action)]


@st.composite
def command_lines(draw: Callable[..., Any]) -> list[str]:
    """Draw a command line of any verb, with mostly valid words."""
    verb = draw(st.sampled_from((*VERBS, PAGE)))
    words, actions = [] if verb == PAGE else [verb], flags_of(verb)
    needed = [action for action in actions if action.required]
    for action in [*needed, *draw(st.lists(st.sampled_from(actions), max_size=4))]:
        flag = draw(st.sampled_from(action.option_strings))
        values = [] if action.nargs == 0 else draw(st.lists(
            st.one_of(*[st.sampled_from(valid_words(action))] * 2, WORDS), min_size=1,
            max_size=3 if action.nargs in ("+", "*") else 1))
        words += [f"{flag}={values[0]}", *values[1:]] if values and draw(st.booleans()) else [flag, *values]
    return words if draw(st.integers(0, 19)) else [*words[:2], draw(WORDS), *words[2:]]


@cache
def demo_rig() -> Rig:
    """Return the demo rig, loaded once."""
    return load_rig("demo", "bfloat16")


def prepare_verb(verb: ModuleType, args: argparse.Namespace) -> int:
    """Do what the verb does before a model runs."""
    name = verb.__name__.rpartition(".")[2]
    if name != "sweep" and getattr(args, "rig", "demo") not in KNOWN_RIGS:  # anatomy takes no rig
        load_rig(args.rig, "bfloat16")
    match name:
        case "sweep":
            plan = sweep.latest(args.out)[1] if args.resume else sweep.plan_of(args)
            check(plan, demo_rig().methods, tuple(demo_rig().drafters))
        case "bench":
            plan = bench.plan_of(args)
            for cell in list(measuring_order(plan))[:len(plan.settings)]:
                demo_rig().prepare(plan.request(cell))
        case "generate":
            generate.answer_of(demo_rig(), args).close()
        case "whatif" if args.trace:
            text_of_run(load(args.trace))
        case "check" | "doctor":
            prompt_set(args.prompts, args.limit)
        case "record":
            read_plans(args.plans or plans_file(args.rig))
    return 0


class Attack(Area):
    cases = st.fixed_dictionaries({
        "words": command_lines(), "file": CONTENTS.map(lambda data: data.decode("latin1"))})

    def __init__(self) -> None:
        demo_rig()
        self._folder = tempfile.TemporaryDirectory()
        place = Path(self._folder.name)
        self._trace = (Path(__file__).parents[2] / "assets" / "traces" / "plain.jsonl.gz").read_bytes()
        self._places = {"@new": place / "new.csv", "@folder": place / "folder", "@file": place / "file",
                        "@trace": place / "plain.jsonl.gz"}

    def trial(self, case: Case) -> None:
        self._lay_out(case["file"].encode("latin1"))
        words = []
        for word in case["words"]:
            flag, equals, value = word.partition("=")
            words.append(f"{flag}={self._places[value]}" if equals and value in self._places
                         else str(self._places.get(word, word)))
        sent = io.TextIOWrapper(io.BytesIO(case["file"].encode("latin1")))
        printed, nothing = io.StringIO(), io.StringIO()
        with (patch.object(sys, "stdin", sent), patch.object(program, "run", prepare_verb),
              redirect_stderr(printed), redirect_stdout(nothing)):
            try:
                status = program.main(words) if words and words[0] in VERBS else start_page(words)
            except SystemExit as error:  # of --help
                status = int(error.code or 0)
        reply = printed.getvalue()
        if status:
            check_sentence(reply.removesuffix("\n"), 3000)
        if status not in (0, 1, 2) or (not status and reply):
            raise BrokenError(f"Exit status {status}, said {reply[:200]!r}")

    def close(self) -> None:
        self._folder.cleanup()

    def _lay_out(self, content: bytes) -> None:
        """Restore the files that every case starts with, and remove what earlier cases left."""
        shutil.rmtree(self._folder.name, ignore_errors=True)
        self._places["@folder"].mkdir(parents=True)
        self._places["@file"].write_bytes(content)
        (self._places["@folder"] / "rig.json").write_bytes(content)
        self._places["@trace"].write_bytes(self._trace)


def start_page(words: list[str]) -> int:
    """Parse the page's words, print a refusal, and return the exit status without serving."""
    try:
        args = app.flags().parse(words)
        hosts_of(args.host, args.allow_host)
        app.follow_of(args)
        app.rig_choice_disabled(args)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return USAGE_ERROR if isinstance(error, UsageError) else 1
    return 0
