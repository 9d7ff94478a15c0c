"""Every flag of every verb with every wrong kind of value: one sentence and an exit status, never a traceback."""

import argparse
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import app
from engine.commands import VERBS, program
from engine.commands.program import CommandLine, UsageError, main, verb_parser
from engine.commands.record import plans_file, read_plans
from tests.running import at_most

HOSTILE = ("", " ", "\udcff", "nan", "inf", "-inf", "-1", "1e400", "9" * 400, "0x10", "½", "٣", "1_0", "null", "[1]",
           "\0", "x" * 5000, "None", "--", "1;2", "${7*6}", "\n")
PATHS = ("readable_file", "writable_file", "parse_folder")
NO_PATHS = ("", "\0", "x" * 5000, "nowhere/at/all", "\udcff/x")
NEEDED = {"generate": ["--prompt", "hi"], "check": ["--prompts", "check"], "whatif": ["--prompt", "hi"],
          "anatomy": ["--trace", "assets/traces/plain.jsonl.gz"]}
PAGE = "page"
BELOW_ZERO = ("--presence-penalty", "--frequency-penalty")  # numbers that may be negative


def parser_of(verb: str) -> CommandLine:
    return app.flags() if verb == PAGE else verb_parser(verb)


def flags_of(verb: str) -> list[argparse.Action]:
    """Return the flags of a verb, or of the page, that take a value."""
    return [action for action in parser_of(verb)._actions if action.option_strings and action.nargs != 0]


def kind(action: argparse.Action) -> str:
    """Return the name of the function that makes the flag's type."""
    maker = action.type.args[0] if isinstance(action.type, partial) else action.type
    return str(getattr(maker, "__qualname__", "")).split(".")[0]


def refusal(words: list[str], capsys: pytest.CaptureFixture[str], *statuses: int) -> str:
    """Run a command line that fails; return its one line on stderr, the only output."""
    assert main(words) in (statuses or (1,))
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and printed.out == ""
    return printed.err


@pytest.mark.parametrize("verb", [*VERBS, PAGE])
def test_every_flag_refuses_every_wrong_kind_of_value(verb: str) -> None:
    parser, checked = parser_of(verb), 0
    assert "SUPPRESS" not in parser.format_help()
    for action in flags_of(verb):
        flag = action.option_strings[0]
        assert action.type or action.choices, f"{flag} takes whatever is typed"
        alone = flag in NEEDED.get(verb, []) or (verb, flag) == ("whatif", "--trace")
        for word in {*HOSTILE, *NO_PATHS}:
            numeric = kind(action) in ("number", "budget_or_auto") and not isinstance(action.default, tuple)
            wrong = (numeric and word in HOSTILE) or (kind(action) in PATHS and word in NO_PATHS)
            try:
                parser.parse([*([] if alone else NEEDED.get(verb, [])), f"{flag}={word}"])
                assert not wrong or (word == "-1" and flag in BELOW_ZERO), (verb, flag, word)
            except UsageError as error:
                sentence = str(error)
                assert sentence.startswith(flag) and "\n" not in sentence
                assert len(sentence) < (2501 if action.choices else 700)
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("words", [
    [], ["magic"], ["generate"], ["generate", "--prompt"], ["generate", "--prompt", "hi", "more"],
    ["generate", "--prompt", "hi", "--budgett", "3"], ["generate", "--prompt", "hi", "--json=3"], ["\udcff"],
    ["whatif", "--prompt", "hi", "--trace", "x"], ["check", "--prompts", "check", "--limit"]])
def test_invalid_command_lines_point_to_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(words, capsys, 2).endswith("--help`.\n")


@pytest.mark.parametrize(("words", "named"), [
    (["doctor", "--rig", "x" * 300], "'xxx"), (["doctor", "--rig", "x" * 300 + "::ngram"], "'xxx"),
    (["doctor", "--rig", "::"], "TARGET::DRAFTER"), (["doctor", "--prompts", "novels"], "'novels'"),
    (["doctor", "--prompts", "."], "folder"), (["check", "--prompts", "check", "--skip", "100000"], "--skip")])
def test_impossible_requests_are_one_sentence(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert named in refusal(words, capsys)


@pytest.mark.parametrize("card", [
    {"drafters": 3}, {"drafters": ["../x"]}, {"drafters": [None]}, {"defaults": []}, {"defaults": {"one": ["a"]}},
    {"defaults": {"1": "a"}}, {"defaults": {"1": ["b"]}}, {"familiar_nats": "low"}, {"acceptance_lengths": [1.4]},
    {"acceptance_lengths": {"3": 5}}, {"acceptance_lengths": {"x": 2}}, {"acceptance_lengths": {"3": None}},
    {"acceptance_lengths": {"3": float("nan")}}, {"familiar": ["("]}, {"familiar": ["(" * 90_000]},
    {"good_at": "x" * 300_000}, {"title": "x" * 1000}, {"package": {"name": "a"}}, {"package": "a"}, {"title": 3},
    {"good_at": []}])
def test_a_damaged_card_of_a_rig_is_refused(
        card: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = {"title": "x", "drafters": ["a"], "defaults": {"1": ["a"]}}
    (tmp_path / "rig.json").write_text(json.dumps({**whole, **card}))
    printed = refusal(["generate", "--prompt", "hi", "--rig", str(tmp_path)], capsys)
    assert "rig.json in" in printed and (next(iter(card)) in printed or "larger than" in printed)


@pytest.mark.parametrize(("rows", "named"), [
    ("{", "JSON"), ("[]", "lessons.json"), ("[3]", "3"), ('[{"name": 3}]', "0.name"),
    ('[{"name": "../x", "title": "", "note": "", "prompt": ""}]', "'../x'"),
    ('[{"name": "x", "title": "", "note": "", "prompt": "Hi", "budget": "x"}]', "budget is 'x'")])
def test_damaged_lessons_are_refused(rows: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lessons.json"
    file.write_text(rows)
    assert named in refusal(["record", "--lessons", str(file), "--out", str(tmp_path)], capsys)


@pytest.mark.parametrize("place", ["pipe", "/dev/zero", "/dev/null", "link"])
@pytest.mark.parametrize("words", [
    ["record", "--lessons"], ["doctor", "--prompts"], ["whatif", "--trace"], ["sweep", "--prompts"], ["sweep", "--csv"],
    ["check", "--prompts"], ["generate", "--prompt", "hi", "--trace"], ["page", "--trace"],
    ["page", "--follow", "--trace"]])
def test_neither_pipes_nor_devices_are_read(
        words: list[str], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    typed, device = [*words, str(tmp_path / place)], "device" if place.startswith("/dev") else "pipe"
    with at_most(20):
        if words[0] == "page":
            with pytest.raises(UsageError, match=device):
                app.flags().parse(typed[1:])
        else:
            assert device in refusal(typed, capsys, 1, 2)


def test_a_rig_with_its_own_lessons_records_those() -> None:
    assert plans_file("smollm2").name == "lessons-smollm2.json" and plans_file("demo").name == "lessons.json"
    assert len(read_plans(plans_file("smollm2"))) >= 4


def test_system_errors_and_interruptions_are_sentences(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for raised, status, sentence in (
            (PermissionError(13, "Permission denied", "x.json"), 1, "x.json cannot be read or wr"),
            (KeyboardInterrupt("Stopped."), 130, "Stopped."), (KeyboardInterrupt(), 130, "Interrupted.")):
        def fail(verb: object, choice: object, error: BaseException = raised) -> int:
            raise error
        monkeypatch.setattr(program, "run", fail)
        assert main(["generate", "--prompt", "hi"]) == status
        assert capsys.readouterr().err.startswith(sentence)


@pytest.mark.parametrize("words", [["app.py"], ["-m", "engine", "generate", "--prompt", "hi"]])
def test_an_interruption_during_the_imports_leaves_no_traceback(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    program = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert program.stdout and program.stdout.readline() == "importing\n"
    program.send_signal(signal.SIGINT)
    assert (program.communicate(timeout=60), program.returncode) == (("", ""), -signal.SIGINT)


def test_a_long_word_is_shortened_and_the_help_is_still_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["fetch", "x" * 5000], ["fetch", "\x01" * 5000], ["generate", "--prompt", "hi", "9" * 10**6]):
        printed = refusal(words, capsys, 2)
        assert printed.endswith("--help`.\n") and len(printed) <= 2501 and "…" in printed
