"""A node can be inked by what rows at its place earned, and says why it was kept or not; a lens over the mask."""

from __future__ import annotations

from tests.browser.conftest import Watched

STAGE = "Canopy.parts.stage"
TREE = "Canopy.parts.frames.made.get('tree').panel"


def test_a_tree_is_inked_by_what_its_places_earned(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=merged&mode=workbench&round=4")
    page.wait_for_function(f"{STAGE}.current === 3")
    page.wait_for_function("document.querySelectorAll('[data-panel=tree] [data-node]').length > 1")
    ink = f"{TREE}.marks.scene.round.parents.reduce((all, _, node) => [...all, {TREE}.marks.scene.ink(node)], [])"
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
    page = watched.open(f"{address}#trace=merged&mode=workbench&round=4")
    page.wait_for_function(f"{STAGE}.current === 3")
    page.set_viewport_size({"width": 700, "height": 460})
    page.locator("[data-panel=mask] .cs-full").click()
    page.wait_for_timeout(500)
    mask = "Canopy.parts.frames.made.get('mask').panel"
    left, top, side = (page.evaluate(f"{mask}.grid.{name}") for name in ("left", "top", "side"))
    lens = page.locator("[data-panel=mask] .cp-lens rect")
    assert lens.count() == 0
    box = page.locator("[data-panel=mask] svg.cp-svg").bounding_box()
    page.mouse.move(box["x"] + left + side * 0.3, box["y"] + top + side * 0.6)
    corner = lens.bounding_box()
    assert abs(corner["x"] + corner["width"] - box["x"] - left - side) < 2 and abs(corner["y"] - box["y"] - top) < 2
    page.mouse.move(box["x"] + left + side - 4, box["y"] + top + 4)
    moved = lens.bounding_box()
    assert moved["x"] + moved["width"] < corner["x"] + corner["width"], "the lens is not over what the pointer is at"
