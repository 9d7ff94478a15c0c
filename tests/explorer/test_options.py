"""Every option of a run: programs, flags and the page accept the same values and refuse others by name."""

from argparse import ArgumentError, ArgumentParser
from collections.abc import Callable
from typing import Any

import pytest

from engine.commands.flags import FLAGS, add_flags
from engine.decoding.options import CHOICES, DEFAULTS, HINTS, OPTIONS, max_value, options_of, prompt_request
from engine.errors import RequestError
from engine.records import PromptRequest

NUMBERS = [name for name in OPTIONS if HINTS[name][0] in (int, float)]
WORDS = ("many", "", "0x10", "½", "1_0", "nan", "inf", "1e400", "9" * 400)
HOSTILE = "</script>${7*6} שלום\x00\x1b🌳<|im_end|>"


def by_program(name: str, value: Any) -> Any:
    """Read the value as ``rig.generate`` does."""
    return options_of(prompt_request({"prompt": "Hi", name: value}))[name]


def by_flag(name: str, value: Any) -> Any:
    """Read the value as a command line does."""
    flag, parser = f"--{name.replace('_', '-')}", ArgumentParser(exit_on_error=False)
    add_flags(parser, flag)
    try:
        return getattr(parser.parse_args([f"{flag}={value}"]), name)
    except ArgumentError as error:
        raise RequestError(f"{OPTIONS[name].name} {error.message}.") from error


def by_page(name: str, value: Any) -> Any:
    """Read the value as the bar and a POST do."""
    return options_of(prompt_request({"prompt": "Hi", name: value}, page=True))[name]


WAYS = {"program": by_program, "flag": by_flag, "page": by_page}
Way = Callable[[str, Any], Any]


def refused(way: Way, name: str, value: Any) -> str:
    with pytest.raises(RequestError) as caught:
        way(name, value)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 300
    return sentence


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_outside_its_bounds_is_refused_and_the_message_names_them(name: str, way: str) -> None:
    option, act, most = OPTIONS[name], WAYS[way], max_value(name, way == "page")
    for value in (DEFAULTS[name], most):
        assert act(name, value) == act(name, str(value)) == value
    beyond = [option.low - 1, most + 1, *([] if option.inclusive else [option.low])]
    beyond += [2.5] if HINTS[name][0] is int else []
    for value in (*beyond, *WORDS, *([None, True, [1], {}] if way != "flag" else [])):
        sentence = refused(act, name, value)
        assert sentence.startswith(option.name), "the message says what is wrong"
        assert f"{most:g}" in sentence or str(most) in sentence, "and what is allowed"
        assert str(value)[:20] in sentence or "is empty" in sentence, "and which value was given"
    if option.or_zero:
        assert act(name, 0) == 0 and refused(act, name, option.low / 2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CHOICES)
def test_only_the_declared_choices_of_an_option_are_accepted(name: str, way: str) -> None:
    for word in CHOICES[name]:
        assert WAYS[way](name, word) == word
    for value in ("magic", "", *([None, 7, ["total"]] if way != "flag" else [])):
        sentence = refused(WAYS[way], name, value)
        assert all(word in sentence for word in CHOICES[name]) and str(value) in sentence


TURNS = "[role, text]"


@pytest.mark.parametrize("way", ["program", "page"])
@pytest.mark.parametrize(("name", "value", "words"), [
    ("prompt", "", "empty"), ("prompt", " \n\t", "empty"), ("prompt", None, "None"), ("prompt", "a\ud800", "prompt"),
    ("drafters", 7, "7"), ("drafters", [1], "[1]"), ("heads", {"a": 1}, "list"), ("heads", ["a", "b", "c"], "2"),
    ("drafters", ["a" * 10**6], "200"), ("turns", "Hi", "'Hi'"), ("turns", {"role": "user"}, "list"),
    ("turns", [["user"]], "['user']"), ("turns", [None], TURNS), ("turns", [{"role": "user"}], "role"),
    ("turns", [["user", "Hi"], ["assistant", 7]], "2"), ("turns", [["<script>" * 10**5, ""]], "system, user"),
    ("turns", [["user", "\udfff"]], "1"), ("turns", [["user", "a\n" * 10**6, "b"]], "1"),
    ("max_new_tokens", 3, "max_tokens")])
def test_invalid_texts_and_lists_are_refused_by_name(name: str, value: Any, words: str, way: str) -> None:
    assert words in refused(WAYS[way], name, value)


@pytest.mark.parametrize(("name", "value", "words"), [
    ("prompt", "a" * 100_000, "20,000"),
    ("turns", [["user", ""]] * 65, "64"),
    ("turns", [["user", "a" * 60_000]] * 2, "100,000")])
def test_texts_from_the_network_have_a_maximum_length(name: str, value: Any, words: str) -> None:
    assert words in refused(by_page, name, value) and by_program(name, value)


def test_drafters_and_turns_are_accepted_in_every_form() -> None:
    turns = [["system", HOSTILE], {"role": "user", "content": "a" * 50_000}, ("assistant", "")]
    ask = prompt_request({"prompt": HOSTILE, "heads": ["math", HOSTILE], "turns": turns}, page=True)
    assert ask.prompt == HOSTILE and ask.drafters == ("math", HOSTILE)
    assert ask.turns == (("system", HOSTILE), ("user", "a" * 50_000), ("assistant", ""))
    assert prompt_request({"prompt": "Hi", "drafters": None, "turns": None}) == PromptRequest("Hi")
    assert prompt_request({"prompt": "Hi", "drafters": "math"}).drafters == ("math",)
    assert prompt_request({"prompt": "Hi", "budget": "auto"}).pace == "auto"


def test_every_option_has_a_flag_with_its_help_and_default() -> None:
    for name in OPTIONS.keys() - {"prompt", "turns"}:
        flag = FLAGS[f"--{name.replace('_', '-')}"]
        assert OPTIONS[name].help in flag["help"]
        assert name in ("budget", "drafters") or flag["default"] == DEFAULTS[name], "a rig has its own"
