"""Two runs lie over the one that is shown."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import Watched

STAGE = "Canopy.parts.stage"


def row_of(page: Any, trace: str) -> Any:
    """The row of a recording in the list of runs, which opens."""
    page.evaluate(f"location.hash = '#trace={trace}&mode=workbench'")
    page.wait_for_function(f"{STAGE}.value.run === '{trace}' && {STAGE}.rounds.length > 1")
    page.get_by_role("button", name="your runs").click()
    title = page.evaluate(f"{STAGE}.header.method")
    return page.locator(".cs-run", has_text=f"{title}, ")


def test_two_runs_lie_over_the_one_that_is_shown(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=merged&mode=workbench")
    row_of(page, "merged").locator("button", has_text="A").click()
    assert row_of_pressed(page) == ["A"]
    page.keyboard.press("Escape")
    row_of(page, "routed").locator("button", has_text="B").click()
    assert row_of_pressed(page) == ["A", "B"]
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#trace=welcome&mode=workbench'")
    page.wait_for_function(f"{STAGE}.value.run === 'welcome'")
    marks = "[...document.querySelectorAll('.cp-budget-pin')].map((mark) => mark.textContent).sort()"
    page.wait_for_function(f"{marks}.join('') === 'AABB'")
    pins = page.evaluate(f"Object.values({STAGE}.pins).map(({{ run, lengths }}) => [run, lengths.length])")
    assert [run for run, _ in pins] == ["merged", "routed"]
    assert min(length for _, length in pins) > 1
    page.get_by_role("button", name="your runs").click()
    page.locator(".cs-pin[aria-pressed=true]").first.click()
    page.keyboard.press("Escape")
    page.wait_for_function(f"{marks}.join('') === 'BB'")


def row_of_pressed(page: Any) -> list[str]:
    """The pins that are set."""
    return sorted(page.locator(".cs-pin[aria-pressed=true]").all_inner_texts())
