"""A server attached to the page: what it does not report is said to be unknown, what it decides cannot be set, and one
that does not answer at first is taken when it does."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE_MS, PORT, free_port, served, visit
from tests.engine.servers.scripted_server import DONE, chunk, event, models, one, says, scripted, streams

LLAMA: dict[str, Any] = {
    "models": says(models("llamacpp", max_model_len=4096)), "props": says('{"build_info": "b9"}'), "metrics": says(
        "llamacpp:spec_decode_num_drafts_total 3\n", "text/plain"),
    "chat": streams(*map(one, "abcdefghi"), chunk("", finish_reason="stop"), event(
        choices=[], timings={"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 7}), DONE)}
SETTLED = ("window.Canopy && Canopy.parts && Canopy.parts.ready && Canopy.parts.rigs && Canopy.parts.rigs.state "
           "&& !Canopy.parts.rigs.state.coming")


@pytest.fixture(scope="module")
def attached(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page whose rig is a llama.cpp server that did not answer at first, and was asked again."""
    results, port = tmp_path_factory.mktemp("attached") / "results.sqlite", free_port()
    address = f"http://127.0.0.1:{port}"
    with served("app.py", "--port", PORT, "--rig", address, "--results", str(results)) as url, visit(
            browser, url) as watched:
        page = watched.open(f"{url}#mode=workbench")
        page.wait_for_function(SETTLED, timeout=3 * PATIENCE_MS)
        page.wait_for_function(f"document.querySelector('.is-news').innerText.includes('{address} does not answer')")
        with scripted(port, **LLAMA):
            page.evaluate("window.before = true")
            page.locator(".is-news").get_by_role("button", name="Retry").click()
            page.wait_for_function(f"!window.before && {SETTLED}")  # it opens anew
            yield page


def figures(page: Page) -> dict[str, str]:
    """The big numbers that can be seen, by name."""
    return dict(page.evaluate("""Array.from(document.querySelectorAll(".cs-metric:not([hidden])"), (item) => [
        item.className.match(/cs-metric-(\\w+)/)[1], item.querySelector(".cs-number").textContent])"""))


def test_what_the_server_decides_cannot_be_set_and_says_why(attached: Page) -> None:
    for name in ("steps", "budget", "pace", "split"):
        attached.wait_for_function(f"document.querySelector('#canopy-{name} input').disabled")
        assert attached.locator(f"#canopy-{name}").is_hidden()
    assert attached.locator("#canopy-temperature input").is_enabled()


def test_what_a_server_does_not_report_is_not_known(attached: Page) -> None:
    attached.wait_for_function("document.querySelector('#canopy-method input').value === 'served'")
    attached.locator("#canopy-prompt textarea").fill("Count.")
    attached.get_by_role("button", name="▶ Run").click()
    attached.wait_for_function("Canopy.parts.stage.value.state === 'done' && Canopy.parts.stage.header.engine")
    seen = figures(attached)
    speed = seen.pop("speed")
    assert seen == {"tau": "–", "accepted": "7 of 8", "rounds": "≈ 2", "round": "–"} and speed != "–"
    assert "does not report" in str(attached.locator(".cs-metric-tau").get_attribute("title"))
    panels = attached.locator(".cs-frame:not(.cs-frame-text):visible")
    assert panels.count() >= 4 and panels.get_by_text("This server does not report which").count() == panels.count()
    assert panels.locator(".cp-svg:visible").count() == 0
    assert "/metrics" not in attached.locator(".cs-notices").inner_text()
    attached.evaluate("Canopy.parts.stage.setMode('story')")
    attached.evaluate("Canopy.parts.player.go(Canopy.parts.stage.rounds.length - 1, {})")
    attached.wait_for_function("document.querySelector('.cs-headline').innerText === '9 tokens in about 2 passes.'")
    attached.evaluate("Canopy.parts.stage.setMode('workbench')")
