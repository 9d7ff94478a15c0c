"""A conversation: in the story the next prompt is the next turn, in the workbench Continue says so; turns keep their
figures, are edited and answered again; and the drafters that one chooses."""

from pathlib import Path
from typing import Any

import pytest

from engine.trace import dumps
from tests.browser.conftest import Watched
from tests.browser.doing import RUN, STAGE, STATE, ask, choose, exported, finish, press, upload
from tests.engine.test_detokenizer import recorded
from tests.engine.tokenizer_kinds import kind
from tests.explorer.scripted import CODE, STORY, scripted_trace

pytestmark = pytest.mark.long

FIRST = "How many books? ${7*6} <script>alert(1)</script>"
PROMPT = "#canopy-prompt textarea"


def turns(page: Any) -> Any:
    """What goes along with the next run."""
    return page.evaluate("Canopy.controls.turns")


def press_run(page: Any) -> None:
    """Press Run, and wait until that run has ended."""
    press(page)
    finish(page)


def talk(page: Any) -> None:
    """A first turn, and Continue behind it."""
    ask(page, FIRST)
    press_run(page)
    page.get_by_role("button", name="Continue", exact=True).click()


def test_the_second_run_has_the_first_turn(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, FIRST)
    press_run(page)
    assert exported(page).header.turns == ()
    boxes = "['.cs-area', '#canopy-run', '[data-panel=tree]'].map((name) => " \
            "document.querySelector(name).getBoundingClientRect().toJSON())"
    before = page.evaluate(boxes)
    page.get_by_role("button", name="Continue", exact=True).click()
    assert page.evaluate(boxes) == before  # nothing moves
    assert page.locator(".cs-turn").inner_text().split("\n")[0] == "Turn 2 of a conversation"
    assert page.input_value(PROMPT) == ""
    page.keyboard.type("And if he gives 7 away?")  # the prompt has the focus
    press_run(page)
    header = exported(page).header
    assert header.prompt == "And if he gives 7 away?"
    assert [role for role, _ in header.turns] == ["user", "assistant"]
    assert header.turns[0][1] == FIRST
    assert "".join(header.turns[1][1].split()) == "".join((STORY + CODE).split())
    assert page.locator(".cs-turn-text").first.inner_text() == FIRST
    assert page.locator(".cs-speaker").all_inner_texts() == ["You", "Answer"]
    assert page.locator(".cs-frame-text .cs-prompt").inner_text() == "And if he gives 7 away?"
    page.keyboard.press("Escape")
    page.locator(".cs-frame-text .cs-text").focus()
    page.keyboard.press("c")
    assert page.locator(".cs-turn").inner_text().startswith("Turn 3") and len(turns(page)) == 4
    page.wait_for_function(f"document.activeElement === document.querySelector('{PROMPT}')")


def test_starting_afresh_leaves_the_turns_behind(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    assert page.locator(".cs-turn").is_hidden()
    talk(page)
    page.keyboard.type("Something else")
    page.get_by_role("button", name="New conversation").click()
    assert page.locator(".cs-turn").is_hidden() and turns(page) == []
    assert page.input_value(PROMPT) == "Something else"
    press_run(page)
    header = exported(page).header
    assert (header.prompt, header.turns) == ("Something else", ())
    assert page.locator(".cs-turn-before").count() == 0


def test_a_recording_ends_the_conversation_and_brings_its_own(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    talk(page)
    page.get_by_role("button", name="Runs").click()
    page.get_by_role("button", name="Scripted: routed").click()
    page.wait_for_function(f"{RUN} === 'routed'")
    assert turns(page) == [] and page.locator(".cs-turn").is_hidden()
    talk_before = (("system", "Be brief."), ("user", "Hi"), ("assistant", "</script>"))
    upload(page, "talk.jsonl", dumps(scripted_trace("routed", 32, turns=talk_before, drafters=("spare", "code"))))
    page.wait_for_function(f"{STAGE}.header.turns.length === 3")
    assert page.locator(".cs-speaker").all_inner_texts() == ["System", "You", "Answer"]
    assert page.locator(".cs-turn").inner_text().startswith("Turn 2")
    page.wait_for_function(f"document.querySelector('{PROMPT}').value.startsWith('How many books does Omar')")
    press_run(page)  # the same again, live
    header = exported(page).header
    assert (header.turns, header.drafters) == (talk_before, ("spare", "code"))
    page.locator("#canopy-more .label-wrap").click()
    page.wait_for_function("document.querySelector('#canopy-drafters input')?.value === 'spare + code'")


def test_in_the_story_the_next_prompt_is_the_next_turn_and_turns_keep_their_figures(
        watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=story&method=ddtree&budget=16")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '16'")
    page.keyboard.press("Escape")
    ask(page, FIRST)
    press_run(page)
    page.wait_for_function(f"document.querySelector('{PROMPT}').value === ''")
    first = page.evaluate(RUN)
    rendered = page.locator(".cs-text article:not(.cs-beside) .cs-rendered").first
    code = rendered.locator("pre code")
    code.wait_for()
    assert code.inner_text().startswith("def total_books") and "${7*6} and </script>" in code.inner_text()
    assert "```" not in rendered.inner_text() and "```" in page.locator(".cs-output").first.text_content()
    code.locator(".cs-token").nth(3).click()  # pieces lead to their round, which shows the tokens
    page.wait_for_function("!document.querySelector('.cs-output').hidden")
    assert page.evaluate(f"{STAGE}.pinned") is not None

    ask(page, "And if he gives 7 away?")
    press_run(page)
    header = exported(page).header
    assert header.prompt == "And if he gives 7 away?" and [words for _, words in header.turns][0] == FIRST
    figures = page.locator(".cs-turn-before .cs-figures")
    for words in ("ddtree, 16 nodes", "τ ", "tokens/s", "first token after", "% drafted"):
        assert words in figures.inner_text()
    figures.get_by_role("button", name="Again with").click()
    page.get_by_role("menuitem", name="Plain decoding").click()
    page.wait_for_function(f"{STAGE}.header.method === 'autoregressive' && {STATE} === 'done'")
    assert exported(page).header.prompt == FIRST and exported(page).header.turns == ()
    beside = page.locator(".cs-beside").first
    assert "ddtree, 16 nodes" in beside.inner_text() and beside.locator("pre code").inner_text().startswith("def total")
    assert page.evaluate(f"{STAGE}.ticked.map(({{ run }}) => run)") == [first]
    beside.get_by_role("button", name="Open").click()
    page.wait_for_function(f"{RUN} === '{first}'")
    assert beside.is_hidden()
    page.locator(".cs-prompt").first.get_by_role("button", name="Edit").click()
    assert page.input_value(PROMPT) == FIRST and turns(page) == []


def test_the_mark_covers_nothing(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.wait_for_selector(PROMPT)
    page.evaluate("Canopy.parts.conversation.goOn()")
    for width, height in ((1280, 720), (1000, 800), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for mode in ("story", "workbench", "lab"):
            page.evaluate(f"{STAGE}.setMode('{mode}')")
            mark = page.locator(".cs-turn").bounding_box()
            assert mark["x"] >= 0 and mark["x"] + mark["width"] <= width
            # what can be clicked there is the mark itself, all of it
            assert page.evaluate("""() => {
                const { left, right, top, bottom } = document.querySelector(".cs-turn button").getBoundingClientRect();
                return [[left + 3, top + 3], [right - 3, bottom - 3]].map(([x, y]) =>
                    document.elementFromPoint(x, y).textContent);
            }""") == ["New conversation", "New conversation"]
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_drafters_are_those_that_a_person_chooses(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.locator("#canopy-more .label-wrap").click()
    choose(page, "canopy-method", "ddtree")
    page.wait_for_function("document.querySelector('#canopy-drafters input')?.value === \"the rig's own: story\"")
    choose(page, "canopy-drafters", "code")
    press_run(page)
    assert exported(page).header.drafters == ("code",)
    choose(page, "canopy-method", "joint")
    page.wait_for_function(
        "document.querySelector('#canopy-drafters input')?.value === \"the rig's own: story + code\"")
    press_run(page)
    assert exported(page).header.drafters == ("story", "code")
    choose(page, "canopy-method", "autoregressive")
    page.wait_for_function("document.querySelector('#canopy-drafters input')?.disabled")


def test_a_page_that_opens_anew_for_another_rig_keeps_the_conversation(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    talk(page)
    page.keyboard.type("And now?")
    talk_before = turns(page)
    with page.expect_navigation():
        page.evaluate("Canopy.controls.reload()")
    page.wait_for_selector(".cs-turn >> text=Turn 2")
    page.wait_for_function(f"document.querySelector('{PROMPT}').value === 'And now?'")
    assert turns(page) == talk_before != []
    page.reload()
    page.wait_for_selector(".cs-turn", state="hidden")


def test_words_of_a_tokenizer_that_drops_the_first_blank_are_shown_and_sent_back_apart(
        watched: Watched, address: str, tmp_path: Path) -> None:
    tokenizer = kind("sentencepiece")
    ids = tokenizer.encode("one two three", add_special_tokens=False)
    trace = recorded(tmp_path / "words.jsonl", tokenizer, [ids[:1], ids[1:]], prompt="Count.", method="ddtree")
    page = watched.open(f"{address}#mode=workbench")
    upload(page, "words.jsonl", dumps(trace))
    page.wait_for_function("document.querySelector('.cs-output').textContent === 'one two three'")
    page.get_by_role("button", name="Continue", exact=True).click()
    assert turns(page)[-1] == ["assistant", "one two three"]
