"""Choosing another rig in the page, on the real app: a small one in folders, a name that is none, and who is told."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import PORT, Watched, served, visit
from tests.browser.doing import STAGE, STATE, finish, press
from tests.engine.published import write_short, write_short_dflash

pytestmark = pytest.mark.long

STATE_OF_RIG = "Canopy.parts.rigs.state"
READY = f"window.Canopy && Canopy.parts && Canopy.parts.ready && {STATE_OF_RIG} && !{STATE_OF_RIG}.coming"
ANEW = f"{READY} && Canopy.parts.rigs.changes === 2"  # opened after another rig took the first one's place
FAILURE = "document.querySelector('.cs-rig-failure').textContent"


@pytest.fixture(scope="module")
def small_rig(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A target and a drafter of random weights, by the name that somebody would type."""
    folder = tmp_path_factory.mktemp("small")
    target, drafter = write_short(folder / "small", "Qwen3-8B"), write_short_dflash(folder / "head", "Qwen3-8B")
    return f"{target}::{drafter}"


@pytest.fixture
def app_address(tmp_path: Path) -> Iterator[str]:
    """The app on the demo rig, anew for every try."""
    with served("app.py", "--rig", "demo", "--port", PORT, "--results", str(tmp_path / "results.sqlite")) as url:
        yield url


def load(page: Any, name: str) -> None:
    """Type a rig of one's own and press Enter, by keyboard alone."""
    page.focus(".cs-rig")
    page.keyboard.press("Enter")
    page.fill(".cs-rig-typed", name)
    page.press(".cs-rig-typed", "Enter")


def run(page: Any) -> dict[str, Any]:
    """Press Run, wait for the end; what the run's header says."""
    press(page)
    finish(page)
    outcome: dict[str, Any] = page.evaluate(
        f"({{state: {STATE}, rig: {STAGE}.header.rig, rounds: {STAGE}.rounds.length}})")
    return outcome


def test_another_rig_answers_and_a_name_that_is_none_changes_nothing(
        browser: Any, app_address: str, small_rig: str) -> None:
    with visit(browser, app_address) as watched, visit(browser, app_address) as other:
        page = opened(watched, app_address)
        elsewhere = opened(other, app_address)
        assert page.inner_text(".cs-rig") == "Rig: demo rig"
        page.fill("#canopy-prompt textarea", "What is a draft tree?")
        load(page, small_rig)
        page.wait_for_function(f"{ANEW} && {STATE_OF_RIG}.rig === 'small'")
        page.wait_for_function("document.querySelector('#canopy-prompt textarea').value === 'What is a draft tree?'")
        page.wait_for_function("document.querySelector('#canopy-method input').value")
        ran = run(page)
        assert ran["state"] == "done" and ran["rig"] == "small" and ran["rounds"] > 1
        page.evaluate(f"{STAGE}.setMode('lab')")
        page.wait_for_function("Canopy.laboratory && Canopy.laboratory.given.rig === 'small'")
        page.evaluate(f"{STAGE}.setMode('workbench')")

        load(page, "nonsense")
        page.wait_for_function(FAILURE)
        failure = page.inner_text(".cs-rig-failure")
        assert "There is no rig 'nonsense'; there are demo," in failure
        assert failure.endswith("The small goes on answering.")
        page.keyboard.press("Escape")
        assert page.is_hidden(".cs-rigs") and run(page)["rig"] == "small"

        elsewhere.evaluate("Canopy.parts.rigs.look()")
        elsewhere.wait_for_selector(".is-news:visible")
        assert "small answers now" in elsewhere.inner_text(".is-news p")
        elsewhere.click(".is-news button")
        elsewhere.wait_for_function(ANEW)
        elsewhere.wait_for_function("document.querySelector('.cs-rig').textContent === 'Rig: small'")
        assert elsewhere.is_hidden(".is-news")


def test_a_run_waits_for_the_first_rig_and_the_page_takes_up_what_it_can_do(browser: Any, app_address: str) -> None:
    with visit(browser, app_address) as watched:
        page = watched.open(f"{app_address}#mode=workbench")
        assert page.evaluate("Canopy.parts.stage.rounds.length") > 0, "a recording is there before the rig"
        ran = run(page)
        assert ran["state"] == "done" and ran["rig"] == "demo rig"
        page.wait_for_function(READY)
        page.wait_for_function("document.querySelector('.cs-rig').textContent === 'Rig: demo rig'")
        page.locator("#canopy-more .label-wrap").click()
        page.wait_for_function("document.querySelector('#canopy-drafters input')?.value.includes('math')")
        page.evaluate(f"{STAGE}.setMode('lab')")
        page.wait_for_function("Canopy.laboratory && Canopy.laboratory.given.rig === 'demo rig'")
        assert page.locator(".lab-waiting").count() == 0


def opened(watched: Watched, address: str) -> Any:
    page = watched.open(f"{address}#mode=workbench")
    page.wait_for_function(READY)
    return page


def test_where_no_rig_may_be_chosen_the_page_says_so(watched: Watched, address: str) -> None:
    page = opened(watched, address)
    page.click(".cs-rig")
    assert page.inner_text(".cs-rig-now").startswith("scripted rig")
    assert page.is_visible("text=The rig of this page was chosen when it was started.")
    assert page.is_hidden(".cs-rig-form")
    seen = []
    for _ in range(3):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("(document.activeElement.closest('.cs-rigs') || document.activeElement).tagName"))
    assert set(seen) <= {"DIALOG", "BODY"} and "DIALOG" in seen, "nothing behind it gets the focus, and it comes back"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.classList.contains('cs-rig')")


def test_on_a_phone_nothing_of_the_bar_or_the_sheet_is_cut_off(watched: Watched, address: str) -> None:
    watched.page.set_viewport_size({"width": 390, "height": 844})
    page = opened(watched, address)
    page.click(".cs-rig")
    for part in (".cs-rigs", ".cs-rigs .cs-close", ".cs-bar-tools button >> nth=-1"):
        box = page.locator(part).bounding_box()
        assert box and box["x"] >= 0 and box["y"] >= 0 and box["x"] + box["width"] <= 390, part
    page.click(".cs-rigs .cs-close")
    assert page.is_hidden(".cs-rigs")


def test_the_method_of_an_opened_recording_stays_once_the_rig_has_told_its_own(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(f"{address}#trace=routed&mode=workbench")
    page.wait_for_function(READY)
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'routed'")
    page.wait_for_timeout(3000)  # whatever would overwrite it has arrived by then
    assert page.input_value("#canopy-method input") == "routed"
