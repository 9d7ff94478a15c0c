"""Runs that are kept in the browser, also where the server has forgotten them."""

from __future__ import annotations

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
    page.wait_for_function("Canopy.parts.lessons.named.all.length === 1")
    page.evaluate("sessionStorage.clear()")
    page.goto("about:blank")
    watched.open(f"{address}#mode=workbench")
    kept = page.evaluate("Canopy.parts.lessons.named.all[0]")
    assert kept["note"].startswith("τ ") and "ddtree" in kept["name"]
    recordings(page, kept["name"])
    page.wait_for_function(f"{STAGE}.recorded && {STAGE}.header.method === 'ddtree' && {RUN} !== '{name}'")
    assert page.evaluate(f"{STAGE}.rounds.length") == rounds
    recordings(page, "Forget this run")
    assert page.evaluate("Canopy.parts.lessons.named.all") == []
