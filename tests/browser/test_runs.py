"""Runs in a browser: live updates, Stop, refusals, the bar."""

import time

import pytest

from engine.decoding.methods import METHODS
from tests.browser.conftest import Watched
from tests.browser.doing import STAGE, STATE, ask, choose, exported, finish, press, run, start
from tests.explorer.scripted import CODE, ENDLESS, STORY, going_on

pytestmark = pytest.mark.long


def test_the_text_is_shown_as_typed(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    run(page, "joint")
    shown = page.locator(".cs-frame-text .cs-output").evaluate("element => element.textContent")
    for typed in ("${7*6}", "</script>", "שלום", "🌳", "\n", "\t"):
        assert typed in shown
    assert "".join(shown.split()) == "".join((STORY + CODE).split())
    assert "${7*6}" in page.evaluate("JSON.stringify(Array.from(Canopy.parts.stage.pieces.values()))")


def test_stop_ends_the_run(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, ENDLESS)
    start(page, "autoregressive")
    page.wait_for_function("Canopy.parts.stage.rounds.length > 3")
    page.click("#canopy-stop")
    page.wait_for_function(f"{STATE} === 'stopped'")
    time.sleep(1)
    trace = exported(page)
    time.sleep(0.5)
    assert len(exported(page).entries) == len(trace.entries) < 3000
    assert trace.end.reason == "stopped"
    assert page.evaluate(STATE) == "stopped"
    ask(page, "Once more")
    run(page, "ddtree")
    assert page.evaluate(STATE) == "done"


def test_fifty_updates_leave_every_element_and_the_zoom(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate("""() => {
        window.before = Array.from(document.querySelectorAll("[data-panel] .cs-body > *"));
        const { stage } = Canopy.parts;
        const read = stage.read.bind(stage);
        window.updates = 0;
        stage.read = (lines) => {
            updates += 1;
            read(lines);
        };
    }""")
    ask(page, going_on(60))
    start(page, "autoregressive")
    for _ in range(3):
        page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    camera = "(({ column, row, left, top, held }) => [column, row, left, top, held])" \
        "(Canopy.parts.frames.entries.get('tree').panel.camera)"
    before = page.evaluate(camera)
    finish(page)
    assert page.evaluate("updates") > 50 and page.evaluate(f"{STAGE}.rounds.length") == 60
    assert page.evaluate("before.length") > 5
    assert page.evaluate("before.every(element => element.isConnected)")
    assert page.locator(".cs-stage").count() == 1
    assert page.evaluate(camera) == before and before[-1] is True


def test_a_live_run_is_followed_until_somebody_looks_elsewhere(watched: Watched, address: str) -> None:
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


def test_a_refusal_stays_until_dismissed(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.fill("#canopy-prompt textarea", "   ")
    page.click("#canopy-run")
    notice = page.locator(".cs-notice.is-error")
    notice.wait_for(state="visible")
    assert "The prompt is empty" in notice.inner_text() and notice.get_attribute("role") == "alert"
    assert page.evaluate("Canopy.parts.stage.rounds.length") > 0
    page.keyboard.press("ArrowRight")
    assert notice.is_visible()
    notice.get_by_role("button").click()
    assert notice.is_hidden()


def test_the_bar_offers_every_method_and_its_parts_agree(watched: Watched, address: str) -> None:
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
    for method, shown in (("merged", {"steps", "budget", "pace", "split"}), ("ddtree", {"steps", "budget", "pace"}),
                          ("autoregressive", set[str]())):
        page.get_by_role("option", name=method, exact=True).click()
        page.wait_for_function(f"{STAGE}.settings.method === '{method}'")
        names = ("steps", "budget", "pace", "split")
        assert {name for name in names if page.locator(f"#canopy-{name}").is_visible()} == shown
        page.click("#canopy-method input")


def test_a_preset_that_is_chosen_during_a_run_waits_for_its_end(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, ENDLESS)
    press(page)
    choose(page, "canopy-preset", "Explain: why is the sky blue?")
    page.locator(".cs-toast", has_text="runs as soon as").wait_for()
    page.click("#canopy-stop")
    page.wait_for_function(f"{STAGE}.header.prompt.includes('sky blue') && {STAGE}.rounds.length > 0")
