"""What lay in the way once: the bar over a full panel, the default prompt after a reload, figures of other rounds,
cut captions, trees that do not fit, controls over nodes."""

from typing import Any

import pytest

from engine.trace import dumps
from tests.browser.conftest import READY, Watched
from tests.browser.doing import RUN, STAGE, STATE, ask, run, start, upload
from tests.explorer.scripted import ENDLESS, scripted_trace

TREE = "Canopy.parts.frames.entries.get('tree').panel"
ON_TOP = """(selector) => {
    const element = document.querySelector(selector);
    const box = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2));
}"""
DRAWN = """() => {
    const { canvas, layout, camera } = Canopy.parts.frames.entries.get("tree").panel;
    const width = Number(canvas.getAttribute("width"));
    const ends = Array.from(layout.columns, (column) => camera.x(column));
    return { width, ends: [Math.min(...ends), Math.max(...ends)], bonus: camera.x(layout.columnCount - 1),
             rows: [0, layout.rowCount - 1].map((row) => camera.y(row)), height: Number(canvas.getAttribute("height"))};
}"""


def test_a_panel_over_the_whole_window_lies_over_the_bar_too(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=workbench&round=3")
    for name in ("text", "tree", "cache"):
        page.locator(f"[data-panel={name}] .cs-full").click()
        assert page.evaluate(ON_TOP, f"[data-panel={name}] .cs-frame-title")
        page.locator(f"[data-panel={name}] .cs-full").click()  # a second click goes back, and opens nothing else
        page.wait_for_selector(".is-full", state="detached")
        assert page.locator("dialog[open]").count() == 0


def test_back_leaves_the_full_panel_and_not_the_page(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=workbench&round=3")
    page.locator("[data-panel=tree] .cs-full").click()
    page.wait_for_function("location.hash.includes('panel=tree')")
    page.go_back()
    page.wait_for_selector(".is-full", state="detached")
    assert page.evaluate(f"{STAGE}.current") == 2 and page.evaluate(f"{STAGE}.mode") == "workbench"


@pytest.mark.long
def test_a_reload_brings_the_prompt_of_a_live_run_back(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, "What have I asked?")
    run(page, "merged")
    name = page.evaluate(RUN)
    page.wait_for_function(f"location.hash.includes('{name}')")
    page.reload()
    page.wait_for_function(f"window.Canopy && Canopy.parts && {RUN} === '{name}'")
    page.wait_for_function("document.querySelector('#canopy-prompt textarea').value === 'What have I asked?'")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'merged'")


@pytest.mark.long
def test_live_is_said_of_what_is_live(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate("""() => {
        window.said = [];
        const note = () => said.push([Canopy.parts.stage.value.run, document.querySelector(".cs-badge").textContent]);
        for (const event of ["state", "value"]) Canopy.parts.stage.on(event, note);
    }""")
    ask(page, ENDLESS)
    start(page, "ddtree")
    page.click("#canopy-stop")
    page.wait_for_function(f"{STATE} === 'stopped'")
    badges = page.evaluate("said")
    assert {run for run, badge in badges if badge == "live"} and ["welcome", "starting"] in badges
    assert not [badge for run, badge in badges if run == "welcome" and badge.startswith("live")]


def test_every_way_to_look_counts_the_same_rounds(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&round=3&mode=story")
    figures = page.locator(".cs-metric-tau .cs-number, .cs-metric-rounds .cs-number")
    story = figures.all_inner_texts()
    page.get_by_role("button", name="All panels and all settings").click()
    assert figures.all_inner_texts() == story
    assert story[1] == str(page.evaluate(f"{STAGE}.rounds.length"))


def test_copy_link_says_that_it_copied(watched: Watched, address: str) -> None:
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.open(f"{address}#mode=workbench&round=3")
    page.get_by_role("button", name="Save or share this run").click()
    page.get_by_role("menuitem", name="Copy link").click()
    page.locator(".cs-toast", has_text="Copied").wait_for(state="visible")
    assert "round=3" in page.evaluate("navigator.clipboard.readText()")


@pytest.mark.long
def test_the_address_holds_the_zoom_and_the_tab_of_the_lab(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    page.wait_for_function("location.hash.includes('zoom=')")
    camera = page.evaluate(f"{TREE}.camera.text()")
    page.reload()
    page.wait_for_function(READY)
    assert page.evaluate(f"{TREE}.camera.text()") == camera
    page.get_by_role("button", name="Which method and budget are fastest here").click()
    page.get_by_role("tab", name="Acceptance").click()
    page.wait_for_function("location.hash.includes('tab=acceptance')")
    page.reload()
    page.wait_for_selector("#lab-tab-acceptance[aria-selected=true]")


def test_four_zooms_keep_the_accepted_path_in_sight(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=workbench&round=4")
    for _ in range(4):
        page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    top, columns = page.evaluate(f"[{TREE}.camera.top, {TREE}.stage.round.keep.map((node, at) => {TREE}.camera.x(at))]")
    box = page.locator("[data-panel=tree] .cs-body").bounding_box()
    assert 0 < top < box["height"] and any(0 < x < box["width"] for x in columns)


def test_captions_are_whole(onlooker: Watched) -> None:
    page = onlooker.show("#trace=merged&mode=workbench&round=3")
    page.wait_for_function(f"{RUN} === 'merged'")
    for width, height in ((1440, 900), (1280, 720)):
        page.set_viewport_size({"width": width, "height": height})
        cut = page.locator(".cs-caption:visible").evaluate_all(
            "(all) => all.filter((each) => each.scrollHeight > each.clientHeight + 1).map((each) => each.textContent)")
        assert cut == []


@pytest.mark.parametrize(("size", "mode"), [((1440, 900), "story"), ((1280, 720), "workbench"), ((390, 844), "story")])
def test_the_whole_tree_fits(onlooker: Watched, size: tuple[int, int], mode: str) -> None:
    page = onlooker.show(f"#trace=merged&mode={mode}&round=3")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.wait_for_function(f"{RUN} === 'merged' && !Canopy.parts.frames.planned")
    for index in range(page.evaluate(f"{STAGE}.rounds.length")):
        page.evaluate(f"Canopy.parts.player.go({index}, {{}})")
        page.wait_for_function("!Canopy.parts.frames.planned")
        drawn = page.evaluate(DRAWN)
        assert drawn["ends"][0] > 6 and max(drawn["ends"][1], drawn["bonus"]) < drawn["width"] - 6
        assert drawn["rows"][0] > 30 and drawn["rows"][1] < drawn["height"]


def test_controls_of_the_tree_cover_no_node(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=workbench&round=3")
    body = page.locator("[data-panel=tree] .cs-body").bounding_box()
    for name in ("Fit the tree", "Zoom in", "Zoom out"):
        box = page.locator("[data-panel=tree]").get_by_role("button", name=name).bounding_box()
        assert box["y"] + box["height"] <= body["y"] + 1


def legend(page: Any, name: str) -> list[str]:
    """What the legend of a panel shows."""
    texts: list[str] = page.locator(f"[data-panel={name}] .cs-legend li:visible").all_inner_texts()
    return [" ".join(text.split()) for text in texts]


def test_legends_name_who_is_there(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    upload(page, "one.jsonl", dumps(scripted_trace("ddtree", 20)))
    page.wait_for_function(f"{STAGE}.header.method === 'ddtree'")
    assert legend(page, "text") == ["■ target", "■ story"]
    upload(page, "two.jsonl", dumps(scripted_trace("routed", 20)))
    page.wait_for_function(f"{STAGE}.header.method === 'routed'")
    assert legend(page, "tree")[-3:] == ["■ story", "■ code", "┄ not chosen"]
