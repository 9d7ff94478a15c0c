"""What the lab keeps: a sweep whose app is killed, and every measurement until its deletion is confirmed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.lab.store import Results
from explorer.bundle import ASSETS
from tests.browser.conftest import visit
from tests.browser.lab_app import App
from tests.browser.test_lab import LAB, STATE, button, choose, open_lab

pytestmark = pytest.mark.long

PAUSE_SECONDS = 0.5
RUNS = 2 * (1 + 3)
SHIPPED = len(list((ASSETS / "lab").glob("recorded-*")))


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(tmp_path / "results.sqlite", PAUSE_SECONDS)
    try:
        yield app
    finally:
        app.kill()


def start_sweep(page: Any, app: App) -> None:
    """Start a sweep that includes auto, and wait until some cells are measured."""
    open_lab(page, f"{app.url}#mode=lab")
    choose(page, ["joint"], ["auto", 8, 16])
    button(page, "Measure").click()
    page.wait_for_function(f"{STATE} === 'running' && {LAB}.progress.done > 2")


def test_an_open_page_continues_with_a_restarted_app(browser: Any, app: App) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()  # not watched, because the browser logs unanswered requests as errors
    page.set_default_timeout(90_000)
    start_sweep(page, app)
    app.kill()
    page.locator(".lab-sweep .lab-error").wait_for()
    before = app.finished_cells()
    app.start()
    page.wait_for_function(f"{STATE} === 'stopped' && {LAB}.progress.done === {len(before)}")
    page.locator(".lab-sweep .lab-error").wait_for(state="hidden")
    button(page, "Resume").click()
    page.wait_for_function(f"{STATE} === 'done' && {LAB}.progress.done === {RUNS}")
    context.close()
    assert {name: app.finished_cells()[name] for name in before} == before


def test_a_measurement_is_deleted_after_confirmation(browser: Any, app: App) -> None:
    with visit(browser, app.url) as watched:
        page = watched.page
        start_sweep(page, app)
        history = page.locator(".lab-history")
        assert history.get_by_role("button", name="Delete the measurement").is_disabled()
        button(page, "Stop").click()
        page.wait_for_function(f"{STATE} === 'stopped'")
        history.get_by_role("button", name="Delete the measurement").click()
        assert "measurement 1 " in history.inner_text()
        box = history.locator(".cs-menu-list").bounding_box()
        assert box and box["x"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"]
        assert page.evaluate("document.activeElement.textContent").startswith("Keep")
        history.get_by_role("menuitem", name="Keep").click()
        assert len(app.finished_cells()) > 2
        history.get_by_role("button", name="Delete the measurement").click()
        history.get_by_role("menuitem", name="Delete").click()
        page.locator("[data-plot=curves]", has_text="scripted rig").wait_for()
        page.wait_for_function("document.querySelector('.lab-history option').value === ''")
        listed = history.locator("optgroup option").evaluate_all("(all) => all.map((option) => Number(option.value))")
        assert len(listed) == SHIPPED and max(listed) <= 0  # only shipped sweeps of other rigs
        assert history.get_by_role("button", name="Delete the measurement").is_hidden()
    with Results(app.results) as results:
        assert results.sweeps() == []
