"""The node budget tuned by eye: the panel Budget beside the tree."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE, ask, finish, start
from tests.explorer.scripted import ENDLESS

PANEL = "Canopy.parts.frames.made.get('budget').panel"
DRAWN = "document.querySelectorAll('[data-panel=tree] [role=treeitem]').length"


def predicted(page: Any, watched: str) -> Any:
    page.wait_for_function(f"{PANEL}.found && {PANEL}.found.{watched}")
    return page.evaluate(f"{PANEL}.found")


def test_a_budget_is_tried_out_on_the_shown_round_and_then_run_in_full(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&method=ddtree&budget=4")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '4'")
    start(page, "ddtree")
    finish(page)
    found = predicted(page, "speed")
    assert found["tau"]["mean"] == sorted(found["tau"]["mean"]) and found["plain"] > 0
    assert page.locator(".cp-budget-curve").count() == 2 and page.locator(".cp-budget-point.is-own").count() == 2

    page.evaluate(f"{STAGE}.go(1, {{}})")
    page.wait_for_function(f"{DRAWN} === {STAGE}.round.n")
    kept, drawn = page.evaluate(f"[{STAGE}.round.keep.length, {DRAWN}]")
    slider = page.locator(".cp-budget .cp-svg")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 0.82 * box["width"], box["y"] + box["height"] / 2)
    page.wait_for_function(f"{STAGE}.retuned && {DRAWN} > {drawn}")
    tried = page.evaluate(f"{STAGE}.tried")
    assert tried > 32 and page.evaluate(f"{STAGE}.round.keep.length") > kept
    assert f"At {tried} nodes" in page.locator(".cp-budget [role=status]").inner_text()
    page.wait_for_function(f"document.querySelector('#canopy-budget input').value === '{tried}'")

    slider.press("ArrowLeft")
    page.wait_for_function(f"{STAGE}.retuned.budget === {tried // 2}")
    page.get_by_role("button", name="Show the tree as it was run").click()
    page.wait_for_function(f"!{STAGE}.retuned && {DRAWN} === {drawn}")

    page.wait_for_function(f"document.querySelector('#canopy-budget input').value === '{tried // 2}'")
    start(page, "ddtree")
    finish(page)
    assert page.evaluate(f"[{STAGE}.header.budget, {STAGE}.header.pace]") == [tried // 2, "fixed"]
    assert page.locator(".cp-budget-point:not(.is-own)").count() == 2  # the first run
    page.get_by_role("button", name="Recordings").click()
    earlier = page.get_by_role("menuitem").filter(has_text="ddtree, 4 nodes, τ")
    earlier.click()
    page.wait_for_function(f"{STAGE}.header.budget === 4 && {STAGE}.kept.length === 2")


def test_a_prediction_is_drawn_while_the_run_goes_on(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&method=ddtree&budget=2")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '2'")
    ask(page, ENDLESS)
    start(page, "ddtree")
    found = predicted(page, "tau")
    assert page.evaluate(f"{STAGE}.live") and found["rounds"] > 0
    page.click("#canopy-stop")
