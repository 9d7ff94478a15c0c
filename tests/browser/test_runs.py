"""Runs in a browser: live updates, Stop, refusals, the bar, and runs of many rounds."""

import time
from dataclasses import replace

import pytest

from engine.decoding.methods import METHODS
from engine.trace import as_recording, dumps
from tests.browser.actions import RUN, STAGE, STATE, ask, choose, current_trace, finish, press_run, run, start, upload
from tests.browser.conftest import Watched
from tests.explorer.scripted import CODE, ENDLESS, STORY, prompt_for, scripted_trace

long = pytest.mark.long
CAMERA = ("(({ column, row, left, top, held }) => [column, row, left, top, held])"
          "(Canopy.parts.frames.entries.get('tree').panel.camera)")
LONG_ROUNDS = 550


@long
def test_the_text_is_shown_as_written(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    run(page, "joint")
    shown = page.locator(".cs-frame-text .cs-output").evaluate("element => element.textContent")
    for written in ("${7*6}", "</script>", "שלום", "🌳", "\n", "\t"):
        assert written in shown
    assert "".join(shown.split()) == "".join((STORY + CODE).split())


@long
def test_stop_ends_the_run_and_another_can_start(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, ENDLESS)
    start(page, "autoregressive")
    page.wait_for_function(f"{STAGE}.rounds.length > 3")
    page.click("#canopy-stop")
    page.wait_for_function(f"{STATE} === 'stopped' && {STAGE}.run.end")
    trace = current_trace(page)
    time.sleep(0.5)
    assert len(current_trace(page).entries) == len(trace.entries) < 3000 and trace.end.reason == "stopped"
    cut = page.locator(".cs-frame-text .cs-cut")
    page.keyboard.press("End")
    assert "Stopped" in cut.inner_text()
    page.keyboard.press("Home")
    assert cut.is_hidden()
    ask(page, "Once more")
    run(page, "ddtree")
    assert page.evaluate(STATE) == "done"


@long
def test_fifty_updates_keep_every_element_and_the_zoom(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate("window.before = Array.from(document.querySelectorAll('[data-panel] .cs-body > *'))")
    ask(page, prompt_for(60))
    start(page, "autoregressive")
    for _ in range(3):
        page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    before = page.evaluate(CAMERA)
    finish(page)
    assert page.evaluate(f"{STAGE}.rounds.length") == 60
    assert page.evaluate("before.length > 5 && before.every((element) => element.isConnected)")
    assert page.evaluate(CAMERA) == before and before[-1] is True


@long
def test_a_live_run_is_followed_until_another_round_is_chosen(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, ENDLESS)
    start(page, "ddtree")
    newest = page.get_by_role("button", name="Follow the newest round")
    page.wait_for_function(f"{STAGE}.rounds.length > 5 && {STAGE}.current === {STAGE}.rounds.length - 1")
    assert newest.is_hidden()
    page.keyboard.press("Home")
    seen = page.evaluate(f"{STAGE}.rounds.length")
    page.wait_for_function(f"{STAGE}.rounds.length > {seen + 4}")
    assert page.evaluate(f"{STAGE}.current") == 0
    newest.click()
    page.wait_for_function(f"{STAGE}.current === {STAGE}.rounds.length - 1 && {STAGE}.rounds.length > {seen + 8}")
    page.click("#canopy-stop")
    page.wait_for_function(f"{STATE} === 'stopped'")


@long
def test_a_refusal_stays_until_it_is_dismissed(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, "   ")
    page.click("#canopy-run")
    notice = page.get_by_role("alert").filter(has_text="prompt is empty")
    notice.wait_for(state="visible")
    assert page.evaluate(f"{STAGE}.rounds.length") > 0
    page.keyboard.press("ArrowRight")
    assert notice.is_visible()
    notice.get_by_role("button").click()
    assert notice.is_hidden()


@long
def test_the_bar_offers_every_method_and_its_fields_stay_consistent(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    choose(page, "canopy-preset", "Explain: why is the sky blue?")
    page.wait_for_function(f"{STAGE}.header.prompt.includes('sky blue') && !{STAGE}.recorded")  # it runs by itself
    page.wait_for_function("document.querySelector('#canopy-prompt textarea').value.includes('sky blue')")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'ddtree'")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '32'")
    page.wait_for_function("location.hash.includes('budget=32')")
    page.locator("#canopy-steps input[type=range]").fill("9")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '256'")
    page.fill("#canopy-budget input", "16")
    page.wait_for_function("document.querySelector('#canopy-steps input[type=range]').value === '5'")
    page.click("#canopy-method input")
    page.get_by_role("option", name="merged").wait_for(state="visible")
    offered = [text.replace("✓", "").strip() for text in page.get_by_role("option").all_inner_texts()]
    assert offered == list(METHODS)
    told = page.get_by_role("option", name="merged").evaluate("(one) => getComputedStyle(one, '::after').content")
    assert METHODS["merged"].summary in told
    names = ("steps", "budget", "pace", "split")
    for method, shown in (("merged", {*names}), ("ddtree", {"steps", "budget", "pace"}), ("autoregressive", set())):
        page.get_by_role("option", name=method, exact=True).click()
        page.wait_for_function(f"{STAGE}.settings.method === '{method}'")
        assert {name for name in names if page.locator(f"#canopy-{name}").is_visible()} == shown
        page.click("#canopy-method input")


@long
def test_a_preset_chosen_during_a_run_waits_for_its_end(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, ENDLESS)
    press_run(page)
    choose(page, "canopy-preset", "Explain: why is the sky blue?")
    page.locator(".cs-toast", has_text="runs as soon as").wait_for()
    page.click("#canopy-stop")
    page.wait_for_function(f"{STAGE}.header.prompt.includes('sky blue') && {STAGE}.rounds.length > 0")


def test_a_reload_keeps_what_is_written_in_the_bar_and_another_visit_does_not(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    written = {"#canopy-prompt textarea": "Not sent yet", "#canopy-budget input": "24",
               "#canopy-temperature input": "0.5"}
    opened = {field: page.input_value(field) for field in written}
    for field, value in written.items():
        page.fill(field, value)
    page.wait_for_function(f"{STAGE}.settings.budget === 24 && Canopy.controls.bar.temperature === 0.5")
    for _ in range(2):
        page.reload()
        page.wait_for_function("window.Canopy?.controls?.parts?.ready && Canopy.controls.bar.temperature === 0.5")
        assert {field: page.input_value(field) for field in written} == written
    page.goto("about:blank")
    watched.open(f"{address}#mode=workbench")
    page.wait_for_timeout(500)
    assert {field: page.input_value(field) for field in written} == opened


@long
def test_in_the_story_a_preset_leaves_the_rigs_own_setting_for_the_next_prompt(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=story")
    page.evaluate("Canopy.parts.rigs.state.defaults = { method: 'ddtree', budget: 8 }")
    choose(page, "canopy-preset", "Explain: why is the sky blue?")
    page.wait_for_function(f"{STAGE}.header.prompt.includes('sky blue') && {STAGE}.settings.budget === 8")
    assert page.evaluate(f"{STAGE}.settings.method") == "ddtree" and page.evaluate(f"{STAGE}.header.budget") != 8


def test_a_clicked_preset_runs_once_and_can_run_again(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=story")
    page.evaluate(f"window.asked = 0; {STAGE}.on('requested', () => {{ window.asked += 1; }})")
    for times in (1, 2):
        choose(page, "canopy-preset", "Explain: why is the sky blue?")
        page.wait_for_function(f"window.asked === {times} && !{STAGE}.busy && {STAGE}.value.state === 'done'")
        page.wait_for_timeout(500)  # a second run would have begun by then
        assert page.evaluate(f"[window.asked, {STAGE}.refusal]") == [times, ""]
    choose(page, "canopy-preset", "Explain: why is the sky blue?")
    page.wait_for_function(f"window.asked === 3 && {STAGE}.busy")
    choose(page, "canopy-preset", "Explain: why is the sky blue?")  # during its own run
    page.wait_for_function(f"window.asked === 4 && !{STAGE}.busy && {STAGE}.value.state === 'done'")
    assert page.evaluate(f"{STAGE}.refusal") == ""


def test_a_long_run_arrives_completely_and_a_link_opens_any_of_its_rounds(watched: Watched, address: str) -> None:
    sound = as_recording(scripted_trace("ddtree", 4), "Long", "", "2026-11-20")
    entries = (sound.entries * LONG_ROUNDS)[:LONG_ROUNDS]
    long_trace = replace(sound, entries=tuple(
        replace(entry, round=replace(entry.round, index=index)) for index, entry in enumerate(entries)))
    page = watched.open(f"{address}#mode=workbench")
    upload(page, "long.jsonl", dumps(long_trace))
    assert page.evaluate(f"{STAGE}.rounds.map((made) => made.index)") == list(range(LONG_ROUNDS))
    name = page.evaluate(RUN)
    page.goto("about:blank")
    page = watched.open(f"{address}#mode=workbench&trace={name}&round={LONG_ROUNDS - 3}")
    assert page.evaluate(f"[{STAGE}.rounds.length, {STAGE}.current]") == [LONG_ROUNDS, LONG_ROUNDS - 4]


def test_tab_passes_lists_without_a_run_and_keys_choose_from_them(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, "My own text")
    shown = page.evaluate(RUN)
    for name in ("preset", "run", "stop", "method"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('[id^=canopy]').id") == f"canopy-{name}"
    page.keyboard.press("Tab")
    page.wait_for_function("!document.querySelector('[role=listbox]')")
    page.wait_for_timeout(500)  # leaving a list would have started a run by then
    assert page.evaluate(RUN) == shown and page.input_value("#canopy-prompt textarea") == "My own text"
    for _ in range(2):  # the same choice runs again
        page.locator("#canopy-preset input").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_function(f"{RUN} !== '{shown}' && {STAGE}.rounds.length > 0")
        finish(page)
        shown = page.evaluate(RUN)
    assert page.input_value("#canopy-prompt textarea") != "My own text"
