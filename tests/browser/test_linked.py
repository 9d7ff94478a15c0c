"""One selection in all parts: a node is highlighted in all or none, a click pins it, and the address keeps the view."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.actions import RUN, STAGE, show_round
from tests.browser.conftest import READY, Watched

LIT = """(node) => {
    const there = (selector) => document.querySelector(selector) !== null;
    return {
        tree: there("[data-panel=tree] .cp-ring"), marginals: there("[data-panel=marginals] .cp-cell-ring"),
        mask: there("[data-panel=mask] .cp-mask-lit"), cache: there("[data-panel=cache] .cp-slot-mark"),
        verifier: there(`[data-panel=verifier] .is-selected[data-node="${node}"]`),
        text: there(`.cs-part.is-current .cs-token.is-lit[data-node="${node}"]`),
    };
}"""

# The kept node's position on the screen in each part: x and y.
PLACES = """(node) => {
    const made = (name) => Canopy.parts.frames.entries.get(name).panel;
    const box = (element) => element.getBoundingClientRect();
    const on = (element, x, y) => [box(element).left + x, box(element).top + y];
    const middle = (element) => on(element, box(element).width / 2, box(element).height / 2);
    const [mask, cache, marginals] = ["mask", "cache", "marginals"].map(made);
    const { left, top, cell: size } = mask.grid;
    const cell = marginals.hits.find((hit) => hit.node === node && hit.id !== undefined);
    return {
        tree: middle(document.querySelector(`[data-panel=tree] [data-node="${node}"]`)),
        text: middle(document.querySelector(`.cs-part.is-current .cs-token[data-node="${node}"]`)),
        mask: on(mask.canvas, ...[left, top].map((edge) => edge + (node + 0.5) * size)),
        cache: on(cache.canvas, cache.slotMiddle(node), 39),
        marginals: on(marginals.canvas, cell.x + cell.width / 2, cell.y + cell.height / 2),
        verifier: middle(document.querySelector(`[data-panel=verifier] .cp-step .cp-token[data-node="${node}"]`)),
    };
}"""


@pytest.fixture
def page(onlooker: Watched) -> Any:
    """Provide the page on a round of the merged recording whose second kept node is visible in every panel."""
    page = onlooker.show("#trace=merged&mode=workbench&round=4")
    page.wait_for_function(f"{STAGE}.current === 3 && Canopy.parts.frames.settled")
    page.wait_for_function("document.querySelectorAll('[data-panel=tree] [data-node]').length > 1")
    return page


def test_a_node_is_highlighted_in_all_parts_by_pointer_click_and_focus(page: Any) -> None:
    node = page.evaluate(f"{STAGE}.round.keep[1]")
    for part, (x, y) in page.evaluate(PLACES, node).items():
        assert not any(page.evaluate(LIT, node).values()), part
        page.mouse.move(x, y)
        page.wait_for_function(f"{STAGE}.selection.node === {node}")
        lit = page.evaluate(LIT, node)
        assert all(lit.values()), (part, lit)
        page.mouse.move(3, 3)
        page.wait_for_function(f"{STAGE}.selection.node === null")
        page.mouse.click(x, y)
        page.wait_for_function(f"{STAGE}.pinned === {node}")
        page.mouse.move(3, 3)
        assert all(page.evaluate(LIT, node).values()), part
        page.wait_for_function(f"location.hash.includes('node={node}')")
        page.evaluate(f"{STAGE}.pin(null)")
    page.locator(f"[data-panel=verifier] .cp-step[data-node='{node}']").focus()
    assert all(page.evaluate(LIT, node).values())
    page.evaluate(f"{STAGE}.hover(null)")
    page.locator("[data-panel=tree] [role=treeitem][tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert all(page.evaluate(LIT, node).values())
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(f"{STAGE}.selection.node") == 0


def test_panels_scroll_to_a_node_that_is_chosen_in_another(page: Any) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.wait_for_function("Canopy.parts.frames.settled")
    node = page.evaluate(f"{STAGE}.round.keep.at(-1)")
    page.evaluate(f"{STAGE}.pin({node})")
    for region, mark in ((".cp-scroll", ".cp-verifier .is-selected"), (".cp-marginals", ".cp-cell-ring")):
        inside = page.evaluate("""(selectors) => {
            const [region, mark] = selectors.map((one) => document.querySelector(one).getBoundingClientRect());
            return mark.top >= region.top - 1 && mark.top < region.bottom - 5;
        }""", [region, mark])
        assert inside, region


def test_every_offered_node_is_linked_and_named_once(page: Any) -> None:
    offered = page.evaluate(f"{STAGE}.round.keep.flatMap((node) => {STAGE}.round.children[node])")
    assert len(offered) > page.locator("[data-panel=verifier] .cp-offer").count(), "some have no room"
    for node in offered:
        page.evaluate(f"{STAGE}.hover({node})")
        page.wait_for_function(f"document.querySelector('.cp-offer.is-selected')?.dataset.node === '{node}'")
        twice = page.locator(f"[data-panel=tree] [data-label='{node}']:visible").count()
        assert not twice or not page.locator("[data-panel=tree] .is-named").count(), node


def test_a_rejected_node_shows_its_branching_point_its_position_and_its_budget(page: Any) -> None:
    node = page.evaluate(f"{STAGE}.round.n - 1")
    path = page.evaluate(f"{STAGE}.round.path({node})")
    exit_step = next(step for step in path if step not in page.evaluate(f"{STAGE}.round.keep"))
    entry, pointed = (page.locator(f"path.{name}") for name in ("cp-budget-entry", "cs-pointed"))
    page.evaluate(f"{STAGE}.hover({node})")
    marked = page.locator("[data-panel=verifier] .is-exit")
    exits = marked.evaluate_all("(marks) => marks.map(({ dataset }) => Number(dataset.node))")
    assert exits == [path[path.index(exit_step) - 1], exit_step]
    expect(pointed).not_to_have_attribute("d", "")
    expect(entry).to_have_count(1)
    page.evaluate(f"{STAGE}.hover(null)")
    expect(pointed).to_have_attribute("d", "")
    expect(entry).to_have_count(0)


def test_a_token_of_another_round_marks_that_round_in_the_timeline(page: Any) -> None:
    page.locator(".cs-part:not(.is-current) .cs-token").first.hover()
    assert page.evaluate(f"{STAGE}.selection") == {"node": None, "pinned": False, "round": 0}
    expect(page.locator(".cs-pointed")).not_to_have_attribute("d", "")


def test_a_tooltip_does_not_cover_its_nodes_branch_and_a_pinned_node_has_a_sheet(page: Any) -> None:
    ring, tip, sheet = (page.locator(f"[data-panel=tree] .cp-{name}") for name in ("ring", "tip", "sheet"))
    count = page.evaluate(f"{STAGE}.round.n")
    paths = page.evaluate(f"Array.from({STAGE}.round.tokens, (_, node) => {STAGE}.round.path(node))")
    boxes = {node: page.locator(f"[data-panel=tree] [data-node='{node}']").bounding_box() for node in range(1, count)}
    for node in range(count - 1, 1, -(count // 8)):
        page.mouse.move(boxes[node]["x"] + boxes[node]["width"] / 2, boxes[node]["y"] + boxes[node]["height"] / 2)
        branch = [one for one in boxes if node in paths[one] or one in paths[node]]
        assert not any(overlap(boxes[one], tip.bounding_box()) for one in branch), node
    page.mouse.down()
    page.mouse.up()
    assert not tip.is_visible() and "rejected" in sheet.inner_text()
    assert ring.bounding_box()["x"] < sheet.bounding_box()["x"], "the sheet does not cover the tree"
    page.evaluate(f"{STAGE}.pin(null)")
    assert not sheet.is_visible()


def overlap(one: Any, other: Any) -> bool:
    """Return whether two boxes overlap."""
    return all(one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
               for start, size in (("x", "width"), ("y", "height")))


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_row_numbers_of_the_cache_never_overlap(onlooker: Watched, size: tuple[int, int]) -> None:
    page = onlooker.show("#trace=wide&mode=workbench&round=1")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.wait_for_function("Canopy.parts.frames.settled")
    numbers = [mark.bounding_box() for mark in page.locator("[data-panel=cache] .cp-slot-number").all()]
    assert len(numbers) > 8
    assert not any(overlap(one, other) for place, one in enumerate(numbers) for other in numbers[:place])


def test_a_token_leads_to_its_round_and_back_returns(page: Any) -> None:
    page.locator(".cs-part[data-round='5'] .cs-token").first.click()
    assert page.evaluate(f"[{STAGE}.current, {STAGE}.pinned]") == [5, 0]
    page.keyboard.press("End")  # keys still control the stage after the click
    page.wait_for_function(f"{STAGE}.current === {STAGE}.rounds.length - 1")
    page.go_back()
    page.wait_for_function(f"{STAGE}.current === 3")


def test_navigation_sends_no_requests(page: Any, onlooker: Watched) -> None:
    # the only request for an opened run
    page.wait_for_function("Canopy.parts.frames.entries.get('budget').panel.forecast")
    page.wait_for_function(f"{STAGE}.settings.method === {STAGE}.header.method")
    asked = ["what the bar asks about a method"]
    page.on("request", lambda request: asked.append(request.url))
    while [url for url in (*asked, *(request.url for request in onlooker.pending)) if "heartbeat" not in url]:
        asked.clear()
        page.wait_for_timeout(500)
    for index in (0, 2, 5):
        show_round(page, index)
        page.locator("[data-panel=verifier] .cp-step .cp-step-number").first.click()
        assert page.evaluate(f"{STAGE}.pinned") == 0
    box = page.locator(".cs-bars").bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 20, steps=6)
    page.mouse.up()
    assert page.evaluate(f"{STAGE}.current") > 3
    page.keyboard.press("Escape")
    assert [url for url in asked if "heartbeat" not in url] == []


@pytest.mark.long
def test_the_address_keeps_the_whole_view_over_a_reload_and_back_works(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=merged&round=4&node=5&mode=workbench&method=merged&budget=128&panel=mask")
    page.wait_for_function(f"{RUN} === 'merged' && {STAGE}.current === 3 && {STAGE}.pinned === 5")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '128'")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'merged'")
    frame = page.locator("[data-panel=mask]")
    assert frame.bounding_box()["width"] > 1300
    assert frame.locator(".cs-body").evaluate("(body) => Number(body.style.zoom)") > 1.3, "its text grows"
    bars = page.locator(".cs-bars").bounding_box()
    page.mouse.click(bars["x"] + 40, bars["y"] + 30)
    assert page.evaluate(f"{STAGE}.current") == 0, "the timeline stays visible"
    page.evaluate("Canopy.parts.player.go(3, {})")
    page.keyboard.press("Escape")
    page.wait_for_function("!location.hash.includes('panel=')")
    page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    page.evaluate("Canopy.parts.player.go(6, {push: true})")
    page.wait_for_function("location.hash.includes('zoom=') && location.hash.includes('round=7')")
    page.reload()
    page.wait_for_function(f"{READY} && {STAGE}.current === 6 && {RUN} === 'merged'")
    assert page.evaluate("Canopy.parts.frames.entries.get('tree').panel.camera.held")
    page.go_back()
    page.wait_for_function(f"{STAGE}.current === 3")
    page.get_by_role("button", name="Which method and budget are fastest here").click()
    page.get_by_role("tab", name="Acceptance").click()
    page.wait_for_function("location.hash.includes('tab=acceptance')")
    page.reload()
    page.wait_for_selector("#lab-tab-acceptance[aria-selected=true]")


def test_an_address_with_unknown_names_is_harmless(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=merged&mode=workbench&panel=%22%5D&round=9999&node=99999")
    page.wait_for_function(f"{RUN} === 'merged'")
    assert page.evaluate(f"[{STAGE}.current - {STAGE}.rounds.length, {STAGE}.pinned]") == [-1, None]
    page = watched.open(f"{address}?again#trace=nowhere&round=2")
    page.locator(".cs-notice.is-error", has_text="nowhere").wait_for(state="visible")
    assert page.evaluate(f"{STAGE}.rounds.length") > 0


def test_copy_link_copies_the_address_of_the_view(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Save or share this run").click()
    page.get_by_role("menuitem", name="Copy link").click()
    page.locator(".cs-toast", has_text="Copied").wait_for(state="visible")
    assert "round=4" in page.evaluate("navigator.clipboard.readText()")
    page.context.clear_permissions()


def test_a_refused_card_of_the_walk_can_be_pinned(onlooker: Watched) -> None:
    page = onlooker.show("#trace=merged&mode=workbench&round=3")
    card = page.locator(".cp-verifier .cp-offer:not(.is-kept)").first
    node = card.get_attribute("data-node")
    card.click()
    page.wait_for_function(f"{STAGE}.pinned === {node}")
