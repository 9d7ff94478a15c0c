"""The workbench's instruments: a tree inked by what its places earned, a lens over the mask, a timeline that is an
axis, and the node budget tuned by eye."""

from typing import Any

import pytest

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE, ask, finish, show_as, start
from tests.explorer.scripted import ENDLESS

TREE, MASK, BUDGET = (f"Canopy.parts.frames.entries.get('{name}').panel" for name in ("tree", "mask", "budget"))
DRAWN = "document.querySelectorAll('[data-panel=tree] [role=treeitem]').length"


def opened(watched: Watched, address: str) -> Any:
    """The page on the fourth round of the merged recording."""
    page = watched.open(f"{address}#trace=merged&mode=workbench&round=4")
    page.wait_for_function(f"{STAGE}.current === 3")
    return page


def test_a_tree_is_inked_by_what_its_places_earned(watched: Watched, address: str) -> None:
    page = opened(watched, address)
    page.wait_for_function("document.querySelectorAll('[data-panel=tree] [data-node]').length > 1")
    ink = f"Array.from({TREE}.parents.keys(), (node) => {TREE}.ink(node))"
    probable = page.evaluate(ink)
    toggle = page.locator("[data-panel=tree] button", has_text="earned")
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "true"
    shares = page.evaluate(ink)
    assert shares != probable and shares[0] == 1
    kept, seen = page.evaluate(f"""(() => {{
        const {{ rounds, round }} = {STAGE};
        const rank = (one, node) => Math.min(3, one.children[one.parents[node]].indexOf(node));
        const place = (one, node) => [rank(one, node), one.depths[node], one.drafters[node]].join();
        let kept = 0, seen = 0;
        for (const one of rounds) for (let node = 1; node < one.n; node++) if (place(one, node) === place(round, 1)) {{
            seen += 1; kept += Number(one.kept.has(node)); }}
        return [kept, seen]; }})()""")
    assert shares[1] == kept / seen
    x, y = page.evaluate(f"{TREE}.marks.at(1)")
    box = page.locator("[data-panel=tree] svg.cp-svg").bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)
    tip = page.locator("[data-panel=tree] .cp-tip").inner_text()
    assert f"{kept} of {seen} kept in this run" in tip and ("accepted" in tip or "rejected: " in tip)


def test_a_lens_shows_the_mask_around_the_pointer(watched: Watched, address: str) -> None:
    page = opened(watched, address)
    page.set_viewport_size({"width": 760, "height": 700})
    page.locator("[data-panel=mask] .cs-full").click()
    page.wait_for_timeout(500)
    left, top, side = (page.evaluate(f"{MASK}.grid.{name} * {MASK}.canvas.currentCSSZoom")
                       for name in ("left", "top", "side"))
    lens = page.locator("[data-panel=mask] .cp-lens rect")
    assert lens.count() == 0
    box = page.locator("[data-panel=mask] svg.cp-svg").bounding_box()
    page.mouse.move(box["x"] + left + side * 0.3, box["y"] + top + side * 0.6)
    corner = lens.bounding_box()
    assert abs(corner["x"] + corner["width"] - box["x"] - left - side) < 2 and abs(corner["y"] - box["y"] - top) < 2
    page.mouse.move(box["x"] + left + side - 4, box["y"] + top + 4)
    moved = lens.bounding_box()
    assert moved["x"] + moved["width"] < corner["x"] + corner["width"], "the lens is not over what the pointer is at"


def test_the_timeline_is_one_of_time_zooms_and_sums_a_selection(watched: Watched, address: str) -> None:
    page = opened(watched, address)
    bars = page.locator(".cs-bars")
    bars.focus()
    for _ in range(2):
        page.keyboard.press("Shift+ArrowRight")
    rounds = page.evaluate(f"{STAGE}.rounds.slice(3, 6).map(({{ keep, spent }}) => [keep.length, spent])")
    tokens, spent = sum(row[0] for row in rounds), sum(row[1] for row in rounds)
    words = page.locator(".cs-totals").inner_text()
    assert words == f"3 rounds: {tokens} tokens (τ {tokens / 3:.2f}), {1000 * spent:.1f} ms"
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
    show_as(page, "another")
    page.wait_for_timeout(300)
    page.mouse.move(box["x"] + box["width"] - 7, box["y"] + 20)
    assert tip(page) == page.evaluate(f"{STAGE}.rounds.length"), "another run is seen whole"
    assert page.locator(".cs-totals").inner_text() == ""


def tip(page: Any) -> int:
    """The number of the round under the pointer."""
    return int(page.locator(".cs-bar-tip").inner_text().split(":")[0].split()[-1])


def predicted(page: Any, watched: str) -> Any:
    page.wait_for_function(f"{BUDGET}.forecast && {BUDGET}.forecast.{watched}")
    return page.evaluate(f"{BUDGET}.forecast")


def test_a_budget_is_tried_out_on_the_shown_round_and_then_run_in_full(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&method=ddtree&budget=4")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '4'")
    start(page, "ddtree")
    finish(page)
    prediction = predicted(page, "speed")
    assert prediction["tau"]["mean"] == sorted(prediction["tau"]["mean"]) and prediction["plain"] > 0
    assert page.locator(".cp-budget-curve").count() == 2 and page.locator(".cp-budget-point.is-own").count() == 2
    speeds = prediction["speed"]["mean"]
    fastest = prediction["budgets"][speeds.index(max(speeds))]
    page.locator(".cp-budget").get_by_role("button", name="Use").click()
    page.wait_for_function(f"document.querySelector('#canopy-budget input').value === '{fastest}'")

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
    page.get_by_role("button", name="Story").click()
    page.keyboard.press("Escape")  # the film of the run
    own = page.locator(".cp-budget-point.is-own")
    own.first.wait_for()
    assert own.count() == 2
    page.get_by_role("button", name="Workbench").click()
    page.get_by_role("button", name="Runs").click()
    page.locator(".cs-run-open", has_text="ddtree, 4 nodes").click()
    page.wait_for_function(f"{STAGE}.header.budget === 4 && {STAGE}.kept.length === 2")


def test_a_prediction_is_drawn_while_the_run_goes_on(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&method=ddtree&budget=2")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '2'")
    ask(page, ENDLESS)
    start(page, "ddtree")
    prediction = predicted(page, "tau")
    assert page.evaluate(f"{STAGE}.live") and prediction["rounds"] > 0
    page.click("#canopy-stop")


def test_a_run_branches_off_at_a_refused_node_and_leads_back(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&method=ddtree&budget=16")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '16'")
    start(page, "ddtree")
    finish(page)
    node, forced = page.evaluate(f"""(() => {{
      const stage = {STAGE};
      const place = stage.rounds.findIndex((round) => round.n > round.keep.length);
      stage.go(place, {{}});
      const {{ round, rounds }} = stage;
      const node = [...round.tokens.keys()].find((node) => node && !round.kept.has(node));
      const before = rounds.slice(0, place).flatMap(({{ keep, tokens }}) => keep.map((kept) => tokens[kept]));
      return [node, [...before, ...round.path(node).map((step) => round.tokens[step])]];
    }})()""")
    page.evaluate(f"{STAGE}.pin({node})")
    first = page.evaluate(f"{STAGE}.value.run")
    page.get_by_role("button", name="go on from here").click()
    page.wait_for_function(f"{STAGE}.header.forced === {len(forced)} && {STAGE}.value.state === 'done'")
    assert page.evaluate(f"{STAGE}.header.prompt_ids.slice(-{len(forced)})") == forced
    assert page.evaluate(f"{STAGE}.ticked[0].run") == first
    page.locator(".cs-forced button").click()
    page.wait_for_function(f"{STAGE}.value.run === '{first}'")
