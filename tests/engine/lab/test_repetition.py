"""A loop is found from its second copy on; text that only resembles one is not reported."""

import re

import pytest

from engine.lab.repetition import first_copy, repeats_from


def pieces(text: str) -> list[str]:
    """Split a text as a byte-level tokenizer does: a word with its space, a digit, a sign, a line break."""
    return re.findall(r" ?[^\W\d]+|\d| ?[^\w\s]+|\s", text)


START = "Plants make food from light!\n"
LIST = "".join(f"{number}. {{}} and a hat\n" for number in range(1, 13))


@pytest.mark.parametrize(("text", "again"), [
    (START + "They eat plants. " * 20, "They eat plants. " * 19),
    (START + "A light, a hope,\nA keeper stands watch,\n" * 9 + "A light, a", None),
    ("the Golden Rule of " * 12, "the Golden Rule of " * 11),
    (START + "\n" + LIST.format(*["Towels"] * 12), None),
    ("".join("  " * depth + "return function() {\n" for depth in range(12)), None),
    ("植物は光を食べる。" * 30, "植物は光を食べる。" * 29),
    (START + "They eat plants. " * 20 + "And that is the end of it, dear child.", None)])
def test_a_loop_begins_with_its_second_copy(text: str, again: str | None) -> None:
    tokens = list(text) if text[0] == "植" else pieces(text)
    start = repeats_from(tokens)
    assert start is not None
    rest = "".join(tokens[start:])
    if again:
        assert rest.strip() == again.strip()
    assert len(rest) > 0.6 * (len(text) - len(START))


FRUIT = ("Apples", "Plums", "Pears", "Figs", "Limes", "Dates", "Kiwis", "Melons", "Grapes", "Quinces", "Nuts",
         "Berries")


@pytest.mark.parametrize("text", [
    "", "No.", START, LIST.format(*FRUIT),
    "".join(f"{number}. {number}\n" for number in range(1, 41)),
    "".join(f"7 × {number} = {7 * number}\n" for number in range(1, 21)),
    "".join(f'{{"name": "{name}", "age": {age}}},\n' for age, name in enumerate(FRUIT)),
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n" * 2,
    "debounce(function() {\n  log('called');\n});\n" * 3 + "It is called once, and returns at once.",
    "Row, row, row your boat. " * 4 + " ".join(FRUIT * 2) + " and so on: " + LIST.format(*FRUIT),
    "0, " * 60])
def test_lists_tables_code_and_refrains_are_not_loops(text: str) -> None:
    assert repeats_from(pieces(text)) is None


def test_a_loop_is_found_by_token_ids_alone() -> None:
    assert first_copy([*range(50), *[1, 2, 3, 4, 5] * 9]) == 55
    assert first_copy(range(300)) is None
