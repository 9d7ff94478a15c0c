"""budget=auto in the lab: a place of its own in the curves, recommended, adopted, drawn, raced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import visit
from tests.browser.lab_app import App
from tests.browser.test_lab import LAB, STATE, button, choose, opened

pytestmark = pytest.mark.long

PLOT = "document.querySelector('[data-plot=curves] .lab-canvas')"
PAUSE_SECONDS = 0.02


def test_auto_is_measured_recommended_adopted_and_raced(browser: Any, tmp_path: Path) -> None:
    app = App(tmp_path / "results.sqlite", PAUSE_SECONDS)
    try:
        with visit(browser, app.url) as made:
            opened(made.page, f"{app.url}#mode=lab")
            recommended(made.page)
            adopted(made.page)
            raced(made.page)
    finally:
        app.kill()


def recommended(page: Any) -> None:
    """Without a draft it is slower, so auto has to win."""
    assert "auto" in page.evaluate(f"{LAB}.sweep.budgets.values"), "on from the start"
    choose(page, ["joint"], ["auto", 0])
    assert page.locator(".lab-plan").inner_text().startswith("3 settings on 2 prompts: 6 runs")
    button(page, "Measure").click()
    page.wait_for_function(f"{STATE} === 'done' && {LAB}.table.rows.length === 3")
    assert page.locator(".lab-headline").inner_text() == "joint, auto"
    page.wait_for_function(f"{PLOT}.data.some((trace) => trace.meta === 'best')")
    ticks = page.locator("[data-plot=curves] .x2tick").all_text_contents()
    assert ticks == ["0", "auto"]
    best = page.evaluate(f"{PLOT}.data.find((trace) => trace.meta === 'best').x[0]")
    assert best == page.evaluate(f"{LAB}.curves.figure.auto") > page.evaluate(f"{LAB}.curves.figure.zero")
    page.get_by_role("tab", name="Acceptance").click()
    page.wait_for_function(f"{LAB}.shapes.budget.value === 'auto' && {LAB}.shapes.plots.histogram.figure")
    assert page.evaluate(f"{LAB}.shapes.plots.histogram.figure.data[0].name") == "joint"
    page.get_by_role("tab", name="Curves").click()


def adopted(page: Any) -> None:
    """The controls take the pace too, and the line of what the controls name stands where auto does."""
    page.locator(".lab-verdict").get_by_role("button", name="Use it").click()
    page.wait_for_function("document.querySelector('#canopy-pace input').value === 'auto: as many as pay'")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '256'")
    page.wait_for_function(f"{PLOT}.layout.shapes.length === 1"
                           f" && {PLOT}.layout.shapes[0].x0 === {LAB}.curves.figure.auto")
    page.click("#canopy-run")
    page.wait_for_function("Canopy.parts.stage.state === 'done' && Canopy.parts.stage.header.pace === 'auto'")
    page.wait_for_function(f"{PLOT}.data.some((trace) => trace.meta === 'runs'"
                           f" && trace.x[0] === {LAB}.curves.figure.auto)")


def raced(page: Any) -> None:
    """A lane beside that of the same method with a number of nodes, and the same text."""
    page.get_by_role("tab", name="Race").click()
    page.click(".lab-race-form summary")
    page.evaluate(f"[{LAB}.race.methods.values, {LAB}.race.auto.values] = [['joint'], ['joint']]")
    page.locator(".lab-pane-race .lab-primary").click()
    page.wait_for_function(f"{LAB}.race.race")
    lanes = page.locator(".lab-lane")
    assert lanes.locator("strong").all_inner_texts() == ["autoregressive", "joint, 256 nodes", "joint, auto"]
    assert [text.strip() for text in page.locator(".lab-lane-figures > :last-child").all_inner_texts()] == [
        "= same text"] * 3
