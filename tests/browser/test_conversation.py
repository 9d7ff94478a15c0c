"""A conversation: the next prompt is the next turn (in the workbench after Continue); turns keep their figures and can
be edited and answered again; the drafters are those that a person chooses."""

from pathlib import Path
from typing import Any

import pytest

from engine.trace import dumps
from tests.browser.actions import RUN, STAGE, STATE, ask, choose, current_trace, finish, press_run, upload
from tests.browser.conftest import Watched
from tests.engine.texts.test_detokenizer import recorded
from tests.engine.tokenizer_kinds import kind
from tests.explorer.scripted import CODE, STORY, scripted_trace

pytestmark = pytest.mark.long

FIRST = "How many books? ${7*6} <script>alert(1)</script>"
PROMPT = "#canopy-prompt textarea"
TURNS = "Canopy.controls.turns"


def run_to_end(page: Any) -> Any:
    """Press Run and wait for the end; return the run's header."""
    press_run(page)
    finish(page)
    return current_trace(page).header


def press_continue(page: Any) -> None:
    page.get_by_role("button", name="Continue", exact=True).click()


def start_conversation(watched: Watched, address: str) -> Any:
    """Return the page after a first turn, with Continue pressed."""
    page = watched.open(f"{address}#mode=workbench")
    assert page.locator(".cs-turn").is_hidden()
    ask(page, FIRST)
    assert run_to_end(page).turns == ()
    press_continue(page)
    return page


def test_the_second_runs_prompt_includes_the_first_turn(watched: Watched, address: str) -> None:
    page = start_conversation(watched, address)
    assert page.locator(".cs-turn").inner_text().startswith("Turn 2") and page.input_value(PROMPT) == ""
    page.keyboard.type("And if he gives 7 away?")  # the prompt has the focus
    header = run_to_end(page)
    assert header.prompt == "And if he gives 7 away?"
    (asker, question), (speaker, answer) = header.turns
    assert (asker, question, speaker) == ("user", FIRST, "assistant")
    assert "".join(answer.split()) == "".join((STORY + CODE).split())
    assert page.locator(".cs-turn-text").first.inner_text() == FIRST
    page.keyboard.press("Escape")
    page.locator(".cs-frame-text .cs-text").focus()
    page.keyboard.press("c")
    assert page.locator(".cs-turn").inner_text().startswith("Turn 3") and len(page.evaluate(TURNS)) == 4
    page.wait_for_function(f"document.activeElement === document.querySelector('{PROMPT}')")
    page.get_by_role("button", name="New conversation").click()
    assert page.locator(".cs-turn").is_hidden() and page.evaluate(TURNS) == []
    ask(page, "Something else")
    header = run_to_end(page)
    assert (header.prompt, header.turns) == ("Something else", ()) and page.locator(".cs-turn-before").count() == 0


def test_a_recording_replaces_the_conversation_with_its_own(watched: Watched, address: str) -> None:
    page = start_conversation(watched, address)
    page.get_by_role("button", name="Runs").click()
    page.get_by_role("button", name="Scripted: routed").click()
    page.wait_for_function(f"{RUN} === 'routed'")
    assert page.evaluate(TURNS) == [] and page.locator(".cs-turn").is_hidden()
    turns = (("system", "Be brief."), ("user", "Hi"), ("assistant", "</script>"))
    upload(page, "talk.jsonl", dumps(scripted_trace("routed", 32, turns=turns, drafters=("spare", "code"))))
    page.wait_for_function(f"{STAGE}.header.turns.length === 3")
    assert page.locator(".cs-speaker").all_inner_texts() == ["System", "You", "Answer"]
    page.wait_for_function(f"document.querySelector('{PROMPT}').value.startsWith('How many books does Omar')")
    header = run_to_end(page)  # the same again, live
    assert (header.turns, header.drafters) == (turns, ("spare", "code"))
    page.locator("#canopy-more .label-wrap").click()
    page.wait_for_function("document.querySelector('#canopy-drafters input')?.value === 'spare + code'")


def test_in_the_story_the_next_prompt_is_the_next_turn_and_turns_keep_their_figures(
        watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=story&method=ddtree&budget=16")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '16'")
    page.keyboard.press("Escape")
    ask(page, FIRST)
    run_to_end(page)
    page.wait_for_function(f"document.querySelector('{PROMPT}').value === ''")
    first = page.evaluate(RUN)
    rendered = page.locator(".cs-text article:not(.cs-beside) .cs-rendered").first
    code = rendered.locator("pre code")
    code.wait_for()
    assert code.inner_text().startswith("def total_books") and "${7*6} and </script>" in code.inner_text()
    assert "```" not in rendered.inner_text() and "```" in page.locator(".cs-output").first.text_content()
    code.locator(".cs-token").nth(3).click()  # a token leads to its round
    page.wait_for_function("!document.querySelector('.cs-output').hidden")
    assert page.evaluate(f"{STAGE}.pinned") is not None

    ask(page, "And if he gives 7 away?")
    header = run_to_end(page)
    assert header.prompt == "And if he gives 7 away?" and [words for _, words in header.turns][0] == FIRST
    figures = page.locator(".cs-turn-before .cs-figures")
    for words in ("ddtree, 16 nodes", "τ ", "tokens/s", "% drafted"):
        assert words in figures.inner_text()
    figures.get_by_role("button", name="Again with").click()
    page.get_by_role("menuitem", name="Plain decoding").click()
    page.wait_for_function(f"{STAGE}.header.method === 'autoregressive' && {STATE} === 'done'")
    assert current_trace(page).header.prompt == FIRST and current_trace(page).header.turns == ()
    beside = page.locator(".cs-beside").first
    assert "ddtree, 16 nodes" in beside.inner_text() and beside.locator("pre code").inner_text().startswith("def total")
    assert page.evaluate(f"{STAGE}.overlaidRuns.map(({{ run }}) => run)") == [first]
    beside.get_by_role("button", name="Open").click()
    page.wait_for_function(f"{RUN} === '{first}'")
    assert beside.is_hidden()
    page.locator(".cs-prompt").first.get_by_role("button", name="Edit").click()
    assert page.input_value(PROMPT) == FIRST and page.evaluate(TURNS) == []


def test_the_drafters_are_those_that_a_person_chooses(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.locator("#canopy-more .label-wrap").click()
    for method, chosen, drafters in (("ddtree", "code", ("code",)), ("joint", "", ("story", "code"))):
        choose(page, "canopy-method", method)
        page.wait_for_function("document.querySelector('#canopy-drafters input')?.value.includes('own: story')")
        if chosen:
            choose(page, "canopy-drafters", chosen)
        assert run_to_end(page).drafters == drafters
    choose(page, "canopy-method", "autoregressive")
    page.wait_for_function("document.querySelector('#canopy-drafters input')?.disabled")


def test_a_page_that_reloads_for_another_rig_keeps_the_conversation(watched: Watched, address: str) -> None:
    page = start_conversation(watched, address)
    page.keyboard.type("And now?")
    turns = page.evaluate(TURNS)
    with page.expect_navigation():
        page.evaluate("Canopy.controls.reload()")
    page.wait_for_selector(".cs-turn >> text=Turn 2")
    page.wait_for_function(f"document.querySelector('{PROMPT}').value === 'And now?'")
    assert page.evaluate(TURNS) == turns != []
    page.reload()
    page.wait_for_selector(".cs-turn", state="hidden")


def test_a_space_that_the_tokenizer_drops_is_not_sent_back(watched: Watched, address: str, tmp_path: Path) -> None:
    tokenizer = kind("sentencepiece")
    ids = tokenizer.encode("one two three", add_special_tokens=False)
    trace = recorded(tmp_path / "words.jsonl", tokenizer, [ids[:1], ids[1:]], prompt="Count.", method="ddtree")
    page = watched.open(f"{address}#mode=workbench")
    upload(page, "words.jsonl", dumps(trace))
    page.wait_for_function("document.querySelector('.cs-output').textContent === 'one two three'")
    press_continue(page)
    assert page.evaluate(TURNS)[-1] == ["assistant", "one two three"]
