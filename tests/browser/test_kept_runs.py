"""Runs that are kept: two of the tab's over the one that is shown, and by name in the browser, also if the server
has forgotten them."""

from typing import Any

from tests.browser.conftest import Watched
from tests.browser.doing import RUN, STAGE, run


def recordings(page: Any, entry: str) -> None:
    """Choose from the list of recordings."""
    page.get_by_role("button", name="Recordings").click()
    page.get_by_role("menuitem").filter(has_text=entry).first.click()


def test_a_run_is_kept_by_name_and_opened_as_a_recording_on_another_day(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    run(page, "ddtree")
    name, rounds = page.evaluate(f"[{RUN}, {STAGE}.rounds.length]")
    recordings(page, "Keep this run")
    page.wait_for_function("Canopy.parts.recordings.named.all.length === 1")
    page.evaluate("sessionStorage.clear()")
    page.goto("about:blank")
    watched.open(f"{address}#mode=workbench")
    kept = page.evaluate("Canopy.parts.recordings.named.all[0]")
    assert kept["note"].startswith("τ ") and "ddtree" in kept["name"]
    recordings(page, kept["name"])
    page.wait_for_function(f"{STAGE}.recorded && {STAGE}.header.method === 'ddtree' && {RUN} !== '{name}'")
    assert page.evaluate(f"{STAGE}.rounds.length") == rounds
    recordings(page, "Forget this run")
    assert page.evaluate("Canopy.parts.recordings.named.all") == []


def row_of(page: Any, trace: str) -> Any:
    """The row of a recording in the list of runs, which opens."""
    page.evaluate(f"location.hash = '#trace={trace}&mode=workbench'")
    page.wait_for_function(f"{STAGE}.value.run === '{trace}' && {STAGE}.rounds.length > 1")
    page.get_by_role("button", name="your runs").click()
    title = page.evaluate(f"{STAGE}.header.method")
    return page.locator(".cs-run", has_text=f"{title}, ")


def pressed(page: Any) -> list[str]:
    """The pins that are set."""
    return sorted(page.locator(".cs-pin[aria-pressed=true]").all_inner_texts())


def test_two_runs_lie_over_the_one_that_is_shown(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=merged&mode=workbench")
    row_of(page, "merged").locator("button", has_text="A").click()
    assert pressed(page) == ["A"]
    page.keyboard.press("Escape")
    row_of(page, "routed").locator("button", has_text="B").click()
    assert pressed(page) == ["A", "B"]
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
