"""Another rig's measurement in a browser: shown only on request, dimmed, alone, and with nothing to adopt."""

from pathlib import Path
from typing import Any

import pytest

from explorer.lab.recorded import shipped
from tests.browser.test_axe import AXE, COMPLAINTS
from tests.browser.test_lab import LAB, PLOT, RESULTS, lab_page

pytestmark = pytest.mark.long


def test_another_rigs_measurement_is_shown_on_request_and_cannot_be_adopted(browser: Any, tmp_path: Path) -> None:
    """The shipped sweep was measured on the demo rig, and the scripted rig is loaded."""
    with lab_page(browser, tmp_path, "0.02") as lab:
        lab.click("#canopy-run")  # a run of the loaded rig, which has no place beside another rig's measurement
        lab.wait_for_function("Canopy.parts.stage.value.state === 'done' && !Canopy.parts.stage.recorded")
        verdict = lab.locator(".lab-verdict")
        assert "scripted rig" in verdict.inner_text()
        measurements = lab.get_by_label("Measurements", exact=True)
        measurements.select_option(label=f"recorded {shipped()[0].stored.started[:10]}: demo rig")
        lab.wait_for_function(f"{LAB}.progress.other_rig === 'demo rig' && {RESULTS}.curves.count > 10")
        assert verdict.locator(".lab-eyebrow").inner_text() == "Of another rig: demo rig"
        assert verdict.get_by_role("button", name="Use it").is_hidden()
        lab.wait_for_function(f"{PLOT}.data?.length > 10")
        running = lab.evaluate(f"{PLOT}.data.filter(({{ meta }}) => meta?.startsWith('run')).flatMap(({{ x }}) => x)")
        assert running == [] and float(lab.evaluate(f"getComputedStyle({PLOT}).opacity")) < 1
        before = lab.input_value("#canopy-budget input")
        lab.evaluate(f"{LAB}.speed.curves.plot.onPoint({{customdata: [16, 'dflash', '', 'fixed']}})")
        assert lab.locator(".lab-table-box tbody tr").count() > 10
        assert lab.locator(".lab-table-box tbody button").count() == 0
        lab.evaluate(AXE)
        assert lab.evaluate(COMPLAINTS) == [] and lab.input_value("#canopy-budget input") == before
        measurements.select_option(label="none of scripted rig")
        lab.wait_for_function(f"{LAB}.progress.sweep === null && {RESULTS}.curves.count === 0")
