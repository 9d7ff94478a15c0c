"""Time is an axis: rounds as wide as their time, a part of the run seen larger, and what a selection comes to."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Watched

STAGE = "Canopy.parts.stage"


def test_the_timeline_is_one_of_time_zooms_and_sums_a_selection(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=merged&mode=workbench&round=4")
    page.wait_for_function(f"{STAGE}.current === 3")
    bars = page.locator(".cs-bars")
    bars.focus()
    for _ in range(2):
        page.keyboard.press("Shift+ArrowRight")
    rounds = page.evaluate(f"{STAGE}.rounds.slice(3, 6).map(({{ keep, spent }}) => [keep.length, spent])")
    tokens, spent = sum(row[0] for row in rounds), sum(row[1] for row in rounds)
    said = page.locator(".cs-totals").inner_text()
    assert said == f"3 rounds: {tokens} tokens (τ {tokens / 3:.2f}), {1000 * spent:.1f} ms"
    parts = [float(text.split()[-2]) for text in page.locator(".cs-stage-key > span").all_inner_texts()]
    assert sum(parts) == pytest.approx(1000 * spent, abs=0.5)
    page.locator(".cs-by-time").click()
    assert page.locator(".cs-by-time").get_attribute("aria-pressed") == "true"
    box = bars.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    whole = tip(page)
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(300)
    page.mouse.move(box["x"] + box["width"] - 6, box["y"] + 20)
    assert tip(page) < page.evaluate(f"{STAGE}.rounds.length"), "the end of the run is out of sight"
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    assert tip(page) == whole, "the round under the pointer stayed"
    bars.focus()
    page.keyboard.press("0")
    page.wait_for_timeout(300)
    page.mouse.move(box["x"] + box["width"] - 6, box["y"] + 20)
    assert tip(page) == page.evaluate(f"{STAGE}.rounds.length")
    bars.focus()
    page.keyboard.press("+")
    page.evaluate(f"{STAGE}.show({{ ...{STAGE}.value, run: 'another' }})")
    page.wait_for_timeout(300)
    page.mouse.move(box["x"] + box["width"] - 7, box["y"] + 20)
    assert tip(page) == page.evaluate(f"{STAGE}.rounds.length"), "another run is seen whole"
    assert page.locator(".cs-totals").inner_text() == ""


def tip(page) -> int:  # type: ignore[no-untyped-def]
    """The number of the round under the pointer."""
    return int(page.locator(".cs-bar-tip").inner_text().split(":")[0].split()[-1])
