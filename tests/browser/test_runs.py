"""Live runs in a browser: what is drawn is what the trace says; Stop and errors."""

from __future__ import annotations

import base64
import gzip
import json
import time
from typing import Any

import pytest

from engine.methods import METHODS
from engine.trace import Trace, dumps, loads
from tests.browser.conftest import Watched
from tests.explorer.scripted import CODE, ENDLESS, STORY, scripted_trace

STATE = "Canopy.parts.stage.value.state"
RUN = "Canopy.parts.stage.value.run"


def finish(page: Any) -> None:
    page.wait_for_function(f"['done', 'error'].includes({STATE})")


def choose(page: Any, elem_id: str, value: str) -> None:
    page.click(f"#{elem_id} input")
    page.get_by_role("option", name=value, exact=True).click()


def start(page: Any, method: str) -> None:
    """Press Run, and wait for the first round of that run: until then the stage still shows what was there before."""
    choose(page, "canopy-method", method)
    before = page.evaluate(RUN)
    page.click("#canopy-run")
    page.wait_for_function(f"{RUN} !== '{before}' && Canopy.parts.stage.rounds.length > 0")
    assert page.evaluate("Canopy.parts.stage.header.method") == method


def run(page: Any, method: str) -> None:
    start(page, method)
    finish(page)


def exported(page: Any) -> Trace:
    made = page.evaluate("Canopy.parts.stage.server.export({kind: 'trace', run: Canopy.parts.stage.value.run})")
    return loads(base64.b64decode(made["data"]))


@pytest.mark.parametrize("method", ["ddtree", "merged", "nanogpt"])
def test_what_is_drawn_is_what_the_trace_says(watched: Watched, address: str, method: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    run(page, method)
    trace = exported(page)
    page.keyboard.press("Escape")
    for index in (0, len(trace.entries) // 2, len(trace.entries) - 1):
        page.evaluate(f"Canopy.parts.player.go({index}, {{}})")
        page.wait_for_function(f"!Canopy.parts.frames.planned && Canopy.parts.stage.current === {index}")
        made = trace.entries[index].round
        drawn = page.evaluate("[Canopy.parts.stage.round.n, Canopy.parts.stage.round.keep, "
                              "document.querySelectorAll('[data-panel=tree] [data-node]').length]")
        assert drawn[:2] == [len(made.tree), made.acceptance.keep.tolist()]
        assert drawn[2] == len(made.tree)
        tokens = page.locator(f".cs-part[data-round='{index}'] .cs-token")
        assert tokens.evaluate_all("all => all.map(one => Number(one.dataset.node))") == made.acceptance.keep.tolist()


def test_the_text_is_shown_as_typed(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    run(page, "joint")
    shown = page.locator(".cs-output").evaluate("element => element.textContent")
    assert "${7*6}" in shown and "</script>" in shown and "שלום" in shown and "🌳" in shown
    assert "".join(shown.split()) == "".join((STORY + CODE).split())
    assert "${7*6}" in page.evaluate("JSON.stringify(Array.from(Canopy.parts.stage.pieces.values()))")


def test_stop_ends_the_run(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.fill("#canopy-prompt textarea", ENDLESS)
    start(page, "autoregressive")
    page.wait_for_function("Canopy.parts.stage.rounds.length > 3")
    page.click("#canopy-stop")
    page.wait_for_function(f"{STATE} === 'stopped'")
    time.sleep(1)
    trace = exported(page)
    time.sleep(0.5)
    assert len(exported(page).entries) == len(trace.entries) < 250
    assert trace.end.reason == "stopped"
    assert page.evaluate(STATE) == "stopped"
    page.fill("#canopy-prompt textarea", "Once more")
    run(page, "ddtree")
    assert page.evaluate(STATE) == "done"


def test_stop_before_the_first_round_leaves_what_was_there(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    before = page.evaluate("Canopy.parts.stage.rounds.length")
    page.evaluate("""() => {
        const { stage } = Canopy.parts;
        const coming = { run: "coming", message: "", header: null, from: 0, rounds: [], end: null };
        stage.show({ ...coming, state: "running" });
        window.busy = stage.busy;
        Canopy.controls.stop();
        stage.show({ ...coming, state: "running" });
    }""")
    assert page.evaluate("busy")
    assert page.evaluate(STATE) == "done" and page.evaluate("Canopy.parts.stage.value.run") == "welcome"
    assert page.evaluate("Canopy.parts.stage.rounds.length") == before
    assert page.locator(".cs-badge").get_attribute("data-state") == "recorded"


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


def test_the_stage_is_not_rebuilt_by_updates(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate("window.before = Array.from(document.querySelectorAll('[data-panel] .cs-body > *'))")
    run(page, "autoregressive")
    assert page.evaluate("Canopy.parts.stage.rounds.length") > 50
    assert page.evaluate("before.length") > 5
    assert page.evaluate("before.every(element => element.isConnected)")
    assert page.locator(".cs-stage").count() == 1


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
    choose(page, "canopy-preset", "Explain: a draft tree")
    page.wait_for_function("document.querySelector('#canopy-prompt textarea').value.includes('draft tree')")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'joint'")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '32'")
    page.wait_for_function("location.hash.includes('budget=32')")


def test_the_slider_and_the_number_agree(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.locator("#canopy-steps input[type=range]").fill("9")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '256'")
    page.fill("#canopy-budget input", "16")
    page.wait_for_function("document.querySelector('#canopy-steps input[type=range]').value === '5'")


def test_a_dropped_trace_is_opened_and_a_bad_one_refused(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    data = gzip.compress(json.dumps({"canopy_trace": 7}).encode() + b"\n{}\n")
    page.set_input_files(".cs-file", {"name": "old.jsonl.gz", "mimeType": "application/gzip", "buffer": data})
    page.locator(".cs-notice.is-error", has_text="version 7").wait_for(state="visible")
    trace = scripted_trace("routed", 12)
    page.set_input_files(".cs-file", {"name": "mine.jsonl", "mimeType": "text/plain", "buffer": dumps(trace)})
    page.wait_for_function("Canopy.parts.stage.header.method === 'routed' && Canopy.parts.stage.header.budget === 12")
    assert page.evaluate("Canopy.parts.stage.rounds.length") == len(trace.entries)


def test_every_method_is_offered(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.click("#canopy-method input")
    page.get_by_role("option", name="merged").wait_for(state="visible")
    offered = [text.replace("✓", "").strip() for text in page.get_by_role("option").all_inner_texts()]
    assert offered == list(METHODS)
