"""Another rig's measurement in a browser: shown on request only, dimmed, with nothing to use and nothing beside it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.test_axe import AXE, COMPLAINTS
from tests.browser.test_lab import LAB, lab_page

pytestmark = pytest.mark.long


@pytest.fixture
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The lab of the scripted rig, if nothing was measured; what ships was measured on the demo rig."""
    with lab_page(browser, tmp_path_factory.mktemp("lab"), "0.02") as page:
        yield page


def test_another_rig_is_shown_on_request_and_nothing_of_it_is_used(lab: Any) -> None:
    lab.click("#canopy-run")  # a run of the loaded rig, which has no place beside another rig's measurement
    lab.wait_for_function("Canopy.parts.stage.value.state === 'done' && !Canopy.parts.stage.recorded")
    verdict = lab.locator(".lab-verdict")
    assert "Nothing was measured with scripted rig yet" in verdict.inner_text()
    lab.get_by_label("Measurements", exact=True).select_option(label="recorded 2026-11-22: demo rig")
    lab.wait_for_function(f"{LAB}.progress.other_rig === 'demo rig' && {LAB}.table && {LAB}.curves.count > 10")
    assert verdict.locator(".lab-eyebrow").inner_text() == "Of another rig: demo rig"
    assert verdict.get_by_role("button", name="Use it").is_hidden()
    names = lab.evaluate(f"[...new Set({LAB}.curves.figure.data.map((trace) => trace.meta))].sort()")
    assert names == ["best", "running.speed", "running.tau", "swept"]
    lab.wait_for_selector("[data-plot=curves] .main-svg")
    drawn = "document.querySelector('[data-plot=curves] .lab-canvas')"
    running = f"{drawn}.data.filter((trace) => String(trace.meta).startsWith('running')).flatMap((trace) => trace.x)"
    lab.wait_for_function(f"{drawn}.data.length > 10")
    assert lab.evaluate(running) == []
    assert float(lab.evaluate(f"getComputedStyle({drawn}).opacity")) < 1
    before = lab.input_value("#canopy-budget input")
    lab.evaluate(f"{LAB}.speed.curves.chosen({{customdata: [16, 'dflash', '', 'fixed']}})")
    assert lab.locator(".lab-table-box tbody tr").count() > 10
    assert lab.locator(".lab-table-box tbody button").count() == 0
    lab.evaluate(AXE)
    assert lab.evaluate(COMPLAINTS) == []
    assert lab.input_value("#canopy-budget input") == before
    lab.get_by_label("Measurements", exact=True).select_option(label="none of scripted rig")
    lab.wait_for_function(f"{LAB}.progress.sweep === null && {LAB}.curves.count === 0")
    assert "Nothing was measured with scripted rig yet" in verdict.inner_text()
