"""Every verb with every flag at every wrong kind of value: one sentence and an exit status, never a traceback."""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from engine.commands import VERBS, program, values
from engine.commands.program import UsageError, main, verb_parser
from engine.commands.program import understood as understood_words
from engine.commands.record import lessons_of, read_lessons
from tests.attack.area import at_most

NUMBERS = ("whole", "number", "top_p", "budget_or_auto", "budget_words")  # types that no word of HOSTILE is one of
HOSTILE = ("", " ", "\udcff", "nan", "inf", "-inf", "-1", "1e400", "9" * 400, "0x10", "½", "٣", "1_0", "null", "[1]",
           "\0", "x" * 5000, "None", "--", "1;2", "${7*6}", "\n")
PATHS = ("readable_file", "writable_file", "folder")
NO_PATHS = ("", "\0", "x" * 5000, "nowhere/at/all", "\udcff/x")
NEEDED = {"generate": ["--prompt", "hi"], "check": ["--prompts", "check"], "whatif": ["--prompt", "hi"]}


def flags_of(verb: str) -> Iterator[argparse.Action]:
    """The flags of a verb that take a value."""
    yield from (action for action in verb_parser(verb)._actions if action.option_strings and action.nargs != 0)


def kind(action: argparse.Action) -> str:
    """The name of the function that makes its type; of a number in a range, of the check behind it."""
    return str(getattr(action.type, "__qualname__", "")).split(".")[0]


@pytest.fixture()
def understood(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Type a command line whose verb does nothing: its exit status and what it says."""
    monkeypatch.setattr(program, "run", lambda verb, choice: 0)

    def run(*words: str) -> tuple[int, str]:
        status = main(list(words))
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_at_every_wrong_kind_of_value(understood, verb: str) -> None:  # type: ignore[no-untyped-def]
    checked = 0
    for action in flags_of(verb):
        assert action.type is not None, f"{action.option_strings} takes whatever is typed"
        for word in {*HOSTILE, *NO_PATHS}:
            needed = [] if action.option_strings[0] in NEEDED.get(verb, []) else NEEDED.get(verb, [])
            flag = action.option_strings[0]
            mine = needed if flag not in ("--trace", "--prompt") or verb != "whatif" else []
            status, said = understood(verb, *mine, f"{flag}={word}")
            assert status in (0, 2), (verb, flag, word)
            assert status == 0 or (said.count("\n") == 1 and said.startswith(flag) and len(said) < 700), said
            wrong = (kind(action) in NUMBERS and word in HOSTILE) or (kind(action) in PATHS and word in NO_PATHS)
            assert not (wrong and status == 0), (verb, flag, word)
            checked += 1
    assert checked > 20


def test_every_type_is_one_that_is_checked_here() -> None:
    kinds = {kind(action) for verb in VERBS for action in flags_of(verb)}
    assert kinds <= {*NUMBERS, *PATHS, "name", "text", "one_of", "method", "turn"}
    assert {*NUMBERS, *PATHS} <= kinds


@pytest.mark.parametrize("words", [
    [], ["magic"], ["generate"], ["generate", "--prompt"], ["generate", "--prompt", "hi", "more"],
    ["generate", "--prompt", "hi", "--budgett", "3"], ["generate", "--prompt", "hi", "--json=3"], ["\udcff"],
    ["whatif", "--prompt", "hi", "--trace", "x"], ["check", "--prompts", "check", "--limit"]])
def test_command_lines_that_are_none(understood, words: list[str]) -> None:  # type: ignore[no-untyped-def]
    status, said = understood(*words)
    assert status == 2 and said.count("\n") == 1 and said.endswith("--help`.\n")


@pytest.mark.parametrize(("words", "said"), [
    (["doctor", "--rig", "x" * 300], "There is no rig 'xxx"),
    (["doctor", "--rig", "x" * 300 + "::ngram"], "There is no folder 'xxx"),
    (["doctor", "--rig", "::"], "is not of the form TARGET::DRAFTER"),
    (["doctor", "--prompts", "novels"], "There is no prompt set and no file 'novels'"),
    (["doctor", "--prompts", "."], "cannot be read: it is a folder"),
    (["check", "--prompts", "check", "--skip", "100000"], "--skip leaves those out"),
    (["bench", "--domain", "nosuch"], "has no prompt of the domain 'nosuch'")])
def test_what_cannot_be_done_is_one_sentence(
        words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    found = capsys.readouterr()
    assert said in found.err and found.err.count("\n") == 1 and found.out == ""


@pytest.mark.parametrize(("card", "said"), [
    ([], "has to be an object"), ({"title": "x"}, "has no 'drafters'"), ({"drafters": 3}, "a list of names"),
    ({"drafters": ["../x"]}, "names of folders beside it"), ({"drafters": [None]}, "names of folders beside it"),
    ({"defaults": []}, "an object of lists"), ({"defaults": {"one": ["a"]}}, "under 'defaults'"),
    ({"defaults": {"1": "a"}}, "list of names"), ({"defaults": {"1": ["b"]}}, "as many of a, ngram"),
    ({"familiar_nats": "low"}, "a number"),
    ({"acceptance_lengths": [1.4]}, "an object of numbers"), ({"acceptance_lengths": {"3": 5}}, "from 1 to the budget"),
    ({"acceptance_lengths": {"x": 2}}, "from 1 to the budget"), ({"acceptance_lengths": {"3": None}}, "from 1 to the"),
    ({"acceptance_lengths": {"3": float("nan")}}, "from 1 to the budget"),
    ({"title": 3}, "a text"), ({"good_at": []}, "a text")])
def test_a_damaged_card_of_a_rig(
        card: object, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = {"title": "x", "drafters": ["a"], "defaults": {"1": ["a"]}}
    made = {**whole, **card} if isinstance(card, dict) and "drafters" not in str(said) else card
    (tmp_path / "rig.json").write_text(json.dumps(made))
    assert main(["generate", "--prompt", "hi", "--rig", str(tmp_path)]) == 1
    found = capsys.readouterr().err
    assert said in found and found.count("\n") == 1 and "rig.json in" in found


@pytest.mark.parametrize(("rows", "said"), [
    ("{", "is not a JSON file"), ("{}", "a list of lessons"), ("[]", "a list of lessons"),
    ("[3]", "has to be an object"),
    ('[{"name": 3}]', "under 'name'"), ('[{"name": "../x", "title": "", "note": "", "prompt": ""}]', "letters, digits"),
    ('[{"name": "x", "title": "", "note": "", "prompt": "", "budget": "x"}]', "under 'budget'; it has to be a number"),
    ('[{"name": "x", "title": "", "note": "", "prompt": "", "drafters": "math"}]', "a list of names")])
def test_a_damaged_file_of_lessons(
        rows: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lessons.json"
    file.write_text(rows)
    assert main(["record", "--lessons", str(file), "--out", str(tmp_path)]) == 1
    found = capsys.readouterr().err
    assert said in found and found.count("\n") == 1


@pytest.mark.parametrize("place", ["pipe", "/dev/zero", "/dev/null", "link"])
@pytest.mark.parametrize("words", [
    ["record", "--lessons"], ["doctor", "--prompts"], ["whatif", "--trace"], ["sweep", "--prompts"], ["sweep", "--csv"],
    ["check", "--prompts"], ["pace", "--prompts"], ["generate", "--prompt", "hi", "--trace"], ["page", "--trace"],
    ["page", "--follow", "--trace"]])
def test_no_pipe_is_waited_for_and_no_device_read(
        words: list[str], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    typed, kind = [*words, str(tmp_path / place)], "device" if place.startswith("/dev") else "pipe"
    with at_most(20):
        if words[0] == "page":
            with pytest.raises(UsageError, match=f"which is a {kind}"):
                understood_words(app.flags(), typed[1:])
        else:
            assert main(typed) in (1, 2)
            said = capsys.readouterr().err
            assert f" is a {kind}" in said and said.count("\n") == 1


def test_a_rig_with_lessons_of_its_own_records_those() -> None:
    assert lessons_of("smollm2").name == "lessons-smollm2.json" and lessons_of("demo").name == "lessons.json"
    assert len(read_lessons(lessons_of("smollm2"))) >= 4


def test_an_error_of_the_machine_and_an_interruption_are_sentences(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for raised, status, said in ((PermissionError(13, "Permission denied", "x.json"), 1, "x.json cannot be read or wr"),
                                 (KeyboardInterrupt("Stopped."), 130, "Stopped."),
                                 (KeyboardInterrupt(), 130, "Interrupted.")):
        def fail(verb: object, choice: object, error: BaseException = raised) -> int:
            raise error
        monkeypatch.setattr(program, "run", fail)
        assert main(["generate", "--prompt", "hi"]) == status
        assert capsys.readouterr().err.startswith(said)


def test_every_flag_of_the_page_at_every_wrong_kind_of_value(capsys: pytest.CaptureFixture[str]) -> None:
    for action in (each for each in app.flags()._actions if each.option_strings and each.nargs != 0):
        for word in {*HOSTILE, *NO_PATHS, "99999", "USER"}:
            flag = action.option_strings[0]
            try:
                understood_words(app.flags(), [f"{flag}={word}"])
                accepted = True
            except UsageError as error:
                accepted = False
                assert str(error).startswith(flag) and "\n" not in str(error)
            wrong = (kind(action) in NUMBERS and word in {*HOSTILE, "99999"}) or (
                kind(action) in PATHS and word in NO_PATHS)
            assert not (wrong and accepted), (flag, word)
    for words in (["--port", "99999"], ["--host", "x" * 300], ["--host", ""], ["--auth", "ada"]):
        with pytest.raises(UsageError):
            understood_words(app.flags(), words)


@pytest.mark.parametrize("verb", ["sweep", "bench", "check"])
def test_an_older_name_of_a_flag_is_read_and_not_offered(verb: str) -> None:
    needed = NEEDED.get(verb, [])
    assert verb_parser(verb).parse_args([*needed, "--together", "2", "4"]).concurrency == [2, 4]
    assert "--concurrency" in verb_parser(verb).format_help() and "--together" not in verb_parser(verb).format_help()


def test_numbers_as_they_are_typed() -> None:
    assert values.whole(0, 9)("+3") == 3 and values.budget_or_auto("auto") == "auto"
    assert values.number(0.01, 100, zero=True)("0") == 0.0 and values.top_p("1") == 1.0


def test_a_word_of_any_length_is_quoted_in_part_and_the_way_out_stays(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["fetch", "x" * 5000], ["fetch", "\x01" * 5000], ["generate", "--prompt", "hi", "9" * 10**6]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert said.endswith("--help`.\n") and len(said) <= 2501 and "…" in said
