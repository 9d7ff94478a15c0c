"""Runs in a browser: what is drawn is what the trace says; live updates, Stop, refusals."""

import time
from typing import Any

import pytest

from engine.decoding.methods import METHODS
from engine.trace import Trace, dumps
from tests.browser.conftest import Watched
from tests.browser.doing import RUN, STAGE, STATE, ask, choose, exported, finish, go, run, start, upload
from tests.engine.material import ancestors
from tests.explorer.scripted import CODE, ENDLESS, STORY, going_on, scripted_trace

pytestmark = pytest.mark.long


def compare(page: Any, trace: Trace, index: int) -> None:
    """What stands on the screen for a round is what its trace says."""
    go(page, index)
    made = trace.entries[index].round
    size, keep = len(made.tree), made.acceptance.keep.tolist()
    drawn = page.evaluate("""() => {
        const all = (selector, read) => Array.from(document.querySelectorAll(selector), read);
        Canopy.parts.frames.made.get("verifier").panel.finish();
        return {
            stage: [Canopy.parts.stage.round.n, Canopy.parts.stage.round.keep],
            mask: document.querySelector("[data-panel=mask] [role=img]").getAttribute("aria-label"),
            steps: all("[data-panel=verifier] .cp-step", (step) => Number(step.dataset.node)),
            cache: document.querySelector("[data-panel=cache] [role=img]").getAttribute("aria-label"),
            text: all(`.cs-part[data-round="${Canopy.parts.stage.current}"] .cs-token`,
                (token) => Number(token.dataset.node)),
        };
    }""")
    page.wait_for_function(f"document.querySelectorAll('[data-panel=tree] [data-node]').length === {size}")
    assert drawn["stage"] == [size, keep] and drawn["steps"] == drawn["text"] == keep
    assert f"{int(ancestors(made.tree.parents).sum())} cells seen" in drawn["mask"]
    assert f"kept rows {', '.join(map(str, keep))};" in drawn["cache"]
    lengths = f"{made.start} slots before, {made.start + size} after verify, {made.start + len(keep)} after keep"
    assert lengths in drawn["cache"]


def test_what_is_drawn_is_what_the_trace_says(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    for method in METHODS:
        trace = scripted_trace(method, 64)
        upload(page, f"{method}.jsonl", dumps(trace))
        page.wait_for_function(f"{STAGE}.header.method === '{method}' && {RUN} !== 'welcome'")
        for index in (0, len(trace.entries) // 2, len(trace.entries) - 1):
            compare(page, trace, index)


def test_a_live_run_is_drawn_as_its_trace_says(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    run(page, "merged")
    trace = exported(page)
    assert page.locator(".cs-badge").inner_text().strip().endswith("live, done")
    for index in (0, len(trace.entries) // 2, len(trace.entries) - 1):
        compare(page, trace, index)


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


def test_stop_after_the_end_is_not_called_stopped(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    run(page, "joint")
    page.evaluate("""() => {
        const { stage } = Canopy.parts;
        stage.value = { ...stage.value, state: "running", end: null };
        Canopy.controls.stop();
    }""")
    page.wait_for_function(f"{STATE} === 'done'")
    assert page.evaluate("Canopy.parts.stage.value.end.reason") == "stop"


def test_fifty_updates_leave_every_element_and_the_zoom(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate("""() => {
        window.before = Array.from(document.querySelectorAll("[data-panel] .cs-body > *"));
        const { stage } = Canopy.parts;
        const show = stage.show.bind(stage);
        window.updates = 0;
        stage.show = (value) => {
            updates += 1;
            show(value);
        };
    }""")
    ask(page, going_on(60))
    start(page, "autoregressive")
    for _ in range(3):
        page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    camera = "(({ column, row, left, top, held }) => [column, row, left, top, held])" \
        "(Canopy.parts.frames.made.get('tree').panel.camera)"
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
    assert "The prompt is empty" in notice.inner_text()
    assert page.evaluate("Canopy.parts.stage.rounds.length") > 0
    page.keyboard.press("ArrowRight")
    assert notice.is_visible()
    notice.get_by_role("button").click()
    assert notice.is_hidden()


def test_a_preset_fills_the_bar(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    choose(page, "canopy-preset", "Explain: why is the sky blue?")
    page.wait_for_function("document.querySelector('#canopy-prompt textarea').value.includes('sky blue')")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'ddtree'")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '32'")
    page.wait_for_function("location.hash.includes('budget=32')")


def test_the_slider_and_the_number_agree(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.locator("#canopy-steps input[type=range]").fill("9")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '256'")
    page.fill("#canopy-budget input", "16")
    page.wait_for_function("document.querySelector('#canopy-steps input[type=range]').value === '5'")


def test_every_method_is_offered(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.click("#canopy-method input")
    page.get_by_role("option", name="merged").wait_for(state="visible")
    offered = [text.replace("✓", "").strip() for text in page.get_by_role("option").all_inner_texts()]
    assert offered == list(METHODS)
