"""An attached server on the page: unreported values are shown as unknown, settings that the server decides are
disabled, and a server that answers late is attached when it answers."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE_MS, PORT, free_port, served, visit
from tests.engine.servers.scripted_server import DONE, chunk, event, models, one, says, scripted, streams

LLAMA: dict[str, Any] = {
    "models": says(models("llamacpp", max_model_len=4096)), "props": says('{"build_info": "b9"}'), "metrics": says(
        "llamacpp:spec_decode_num_drafts_total 3\n", "text/plain"),
    "chat": streams(*map(one, "abcdefghi"), chunk("", finish_reason="stop"), event(
        choices=[], timings={"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 7}), DONE)}
SETTLED = ("window.Canopy && Canopy.parts && Canopy.parts.ready && Canopy.parts.rigs && Canopy.parts.rigs.state "
           "&& !Canopy.parts.rigs.state.first_load")


def test_a_server_that_answers_late_is_attached_and_unreported_values_are_unknown(
        browser: Browser, tmp_path: Path) -> None:
    port, words = free_port(), ("--results", str(tmp_path / "results.sqlite"))
    server = f"http://127.0.0.1:{port}"
    with served("app.py", "--port", PORT, "--rig", server, *words) as url, visit(browser, url) as watched:
        page = watched.open(f"{url}#mode=workbench")
        page.wait_for_function(SETTLED, timeout=3 * PATIENCE_MS)
        page.wait_for_function(f"document.querySelector('.is-news').innerText.includes('{server} does not answer')")
        with scripted(port, **LLAMA):
            page.evaluate("window.before = true")
            page.locator(".is-news").get_by_role("button", name="Retry").click()
            page.wait_for_function(f"!window.before && {SETTLED}")  # it reloads
            for name in ("steps", "budget", "pace", "split"):  # the server decides these
                page.wait_for_function(f"document.querySelector('#canopy-{name} input').disabled")
                page.locator(f"#canopy-{name}").wait_for(state="hidden")
            assert page.locator("#canopy-temperature input").is_enabled()
            check_run(page)


def check_run(page: Page) -> None:
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'served'")
    page.locator("#canopy-prompt textarea").fill("Count.")
    page.get_by_role("button", name="▶ Run").click()
    page.wait_for_function("""Canopy.parts.stage.value.state === 'done' && Canopy.parts.stage.header.engine
        && Canopy.parts.frames.settled""")
    seen = dict(page.evaluate("""Array.from(document.querySelectorAll(".cs-metric:not([hidden])"), (item) => [
        item.className.match(/cs-metric-(\\w+)/)[1], item.querySelector(".cs-number").textContent])"""))
    assert seen.pop("speed")
    assert seen == {"tau": "", "accepted": "7 of 8", "rounds": "≈ 2", "round": ""}
    panels = page.locator(".cs-frame:not(.cs-frame-text):visible")
    assert panels.count() >= 4 and panels.get_by_text("This server does not report which").count() == panels.count()
    assert panels.locator(".cp-svg:visible").count() == 0
