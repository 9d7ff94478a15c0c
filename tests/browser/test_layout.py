"""Nothing is cut off or covered on a phone, a laptop and a desktop: menus, captions, trees, full-screen panels."""

from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser

from engine.trace import dumps
from tests.browser.actions import RUN, STAGE, show_round, upload
from tests.browser.conftest import Watched, watch
from tests.explorer.scripted import scripted_trace

PHONE, LAPTOP, DESKTOP = (390, 844), (1280, 720), (1440, 900)
TREE = "Canopy.parts.frames.entries.get('tree').panel"
ON_TOP = """(selector) => {
    const element = document.querySelector(selector);
    const box = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2));
}"""
CUT = """(all) => all.filter((each) => {
    const box = each.getBoundingClientRect();
    const range = document.createRange();
    range.selectNodeContents(each);
    const words = range.getBoundingClientRect();
    return words.top < box.bottom && (words.right > box.right + 1 || words.bottom > box.bottom + 1);
}).map((each) => each.textContent)"""
EXTENT = """() => {
    const { canvas, layout, camera } = Canopy.parts.frames.entries.get("tree").panel;
    const xs = [...Array.from(layout.columns, (column) => camera.x(column)), camera.x(layout.columnCount - 1)];
    return { left: Math.min(...xs), right: Number(canvas.getAttribute("width")) - Math.max(...xs),
             top: camera.y(0), bottom: Number(canvas.getAttribute("height")) - camera.y(layout.rowCount - 1) };
}"""


def show(onlooker: Watched, view: str, size: tuple[int, int]) -> Any:
    page = onlooker.show(view)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.wait_for_function("Canopy.parts.frames.settled")
    return page


def test_menus_and_buttons_fit_a_phones_window(onlooker: Watched) -> None:
    page = show(onlooker, "#trace=merged&mode=story", PHONE)
    page.wait_for_function("Canopy.parts.rigs.state")
    page.evaluate("document.querySelector('.cs-rig').textContent = 'Rig: a-rig-with-a-long-name, loading …'")
    tops = page.evaluate("""Array.from(document.querySelectorAll(".cs-bar-tools button"),
        (tool) => Math.round(tool.getBoundingClientRect().top))""")
    assert len(set(tops)) == 1, "all are on one line"
    page.get_by_role("button", name="Workbench").click()
    rows = [row.bounding_box() for row in page.locator("#canopy-settings .form > :visible").all()]
    more = page.locator("#canopy-more").bounding_box()
    assert len(rows) > 3, "all controls are there"
    for row in rows:
        right = PHONE[0] if row["y"] + row["height"] <= more["y"] else more["x"]
        assert row["x"] + row["width"] <= right, "no control is cut"
    assert page.locator("#canopy-steps input[type=range]").bounding_box()["height"] >= 44, "large enough for a finger"
    page.get_by_role("button", name="Story").click()
    page.get_by_role("button", name="Save or share this run").click()
    box = page.locator(".cs-menu-list:popover-open").bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= PHONE[0]
    page.keyboard.press("Escape")
    page.wait_for_selector(".cs-menu-list:popover-open", state="detached")


@pytest.mark.parametrize("size", [PHONE, LAPTOP, DESKTOP, (1920, 1080)])
def test_the_workbench_fits_the_window_and_no_caption_is_cut(onlooker: Watched, size: tuple[int, int]) -> None:
    page = show(onlooker, "#trace=merged&mode=workbench&round=3", size)
    page.wait_for_function(f"{RUN} === 'merged'")
    page.wait_for_timeout(300)
    width, height = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert width <= size[0] and (size == PHONE or height <= size[1] + 1)
    assert page.locator(".cs-caption:visible").evaluate_all(CUT) == []
    tree, mask = page.evaluate("""["tree", "mask"].map((name) => (
        document.querySelector(`[data-panel=${name}] .cs-body`).offsetHeight))""")
    assert size != LAPTOP or tree > 1.25 * mask, "the tree gets the space of a low window"
    assert size == PHONE or page.evaluate("""(() => {
        const panel = document.querySelector("[data-panel=cache] .cs-body");
        const bottom = (part) => part.getBoundingClientRect().bottom;
        const numbers = Array.from(panel.querySelectorAll(".cp-slot-number"));
        return numbers.length > 1 && numbers.every((number) => bottom(number) <= bottom(panel)); })()""")
    assert tree >= 220 or size == LAPTOP
    page.wait_for_function(f"""document.querySelector('[data-panel=marginals] .cp-svg').textContent
        .includes({STAGE}.round.drafts[0].depth)""")  # also below the visible part


@pytest.mark.parametrize("size", [LAPTOP, DESKTOP])
def test_a_runs_figures_are_on_one_line(onlooker: Watched, size: tuple[int, int]) -> None:
    page = show(onlooker, "#trace=merged&mode=workbench&round=3", size)
    page.wait_for_function(f"{RUN} === 'merged' && {STAGE}.run.end")
    page.evaluate(f"""() => {{
        const speed = {{ tau: "13.10", cost: "2.26", times: "1.52×", range: "1.22 to 1.91", speed: "473",
            plain_speed: "101", outcome: "faster" }};
        {STAGE}.run.end.prefill_seconds = 0.12;
        {STAGE}.comparison = {{ state: "ended", speed, text: {{ words: "" }}, tracks: {{}}, others: [] }};
        {STAGE}.emit("compared");
    }}""")
    assert page.locator(".cs-metric-first").is_visible()
    assert "1.22 to 1.91" in page.locator(".cs-metric-gain").inner_text()
    words = page.locator(".cs-metric:visible dt")
    bottoms = words.evaluate_all("(all) => all.map((each) => Math.round(each.getBoundingClientRect().bottom))")
    assert len(set(bottoms)) == 1
    assert words.evaluate_all(CUT) == []
    page.get_by_role("button", name="Runs", exact=True).click()
    ends = """Array.from(document.querySelectorAll(".cs-metrics, .cs-metric"), (one) => one.getBoundingClientRect())"""
    page.wait_for_function(f"{ends}[0].left {'< 30' if size == LAPTOP else '> 200'}")
    row, *figures = page.evaluate(ends)
    page.mouse.click(size[0] - 60, size[1] - 90)
    assert page.locator(".cs-runs").is_hidden() == (size == LAPTOP), "over the page it closes by a click outside"
    page.evaluate("Canopy.parts.runs.toggle(false)")
    assert max(each["right"] for each in figures if each["top"] < row["bottom"]) <= row["right"] + 1, "none is cut"


@pytest.mark.parametrize(("size", "mode"), [(DESKTOP, "story"), (LAPTOP, "workbench"), (PHONE, "story")])
def test_every_tree_of_a_run_fits_its_panel(onlooker: Watched, size: tuple[int, int], mode: str) -> None:
    page = show(onlooker, f"#trace=merged&mode={mode}&round=3", size)
    page.wait_for_function(f"{RUN} === 'merged'")
    for index in range(page.evaluate(f"{STAGE}.rounds.length")):
        show_round(page, index)
        extent = page.evaluate(EXTENT)
        assert min(extent["left"], extent["right"]) > 6 and extent["top"] > 30 and extent["bottom"] > 0


def test_zooming_keeps_the_accepted_path_visible(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=workbench&round=4")
    for _ in range(4):
        page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    top, columns = page.evaluate(f"[{TREE}.camera.top, {TREE}.stage.round.keep.map((node, at) => {TREE}.camera.x(at))]")
    box = page.locator("[data-panel=tree] .cs-body").bounding_box()
    assert 0 < top < box["height"] and any(0 < x < box["width"] for x in columns)


def test_a_panel_fills_the_window_until_a_second_click_or_back(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=workbench&round=3")
    for name in ("text", "tree", "cache"):
        page.locator(f"[data-panel={name}] .cs-full").click()
        assert page.evaluate(ON_TOP, f"[data-panel={name}] .cs-frame-title"), "the panel covers the bar"
        page.locator(f"[data-panel={name}] .cs-full").click()
        page.wait_for_selector(".is-full", state="detached")
        page.wait_for_function("!location.hash.includes('panel=')")
        assert page.locator("dialog[open]").count() == 0
    page.locator("[data-panel=tree] .cs-full").click()
    page.wait_for_function("location.hash.includes('panel=tree')")
    page.go_back()
    page.wait_for_selector(".is-full", state="detached")
    assert page.evaluate(f"[{STAGE}.current, {STAGE}.mode]") == [2, "workbench"]


def test_a_trees_labels_are_not_cut_and_fit_their_rows(onlooker: Watched) -> None:
    page = show(onlooker, "#trace=merged&mode=workbench&round=3", LAPTOP)
    page.wait_for_function(f"{RUN} === 'merged' && Canopy.parts.frames.settled")
    for view in ("panel", "window"):
        labels = page.locator("[data-panel=tree] .cp-label[data-label]").evaluate_all("""(all) => all.map((label) => [
            ...["x", "y"].map((side) => Number(label.getAttribute(side))),
            parseFloat(getComputedStyle(label).fontSize)])""")
        height = page.evaluate(f"{TREE}.height")
        assert len(labels) > 10 and all(y + 2 < height for _, y, _ in labels), view
        for (x, y, _), (next_x, next_y, size) in pairwise(sorted(labels)):
            assert x != next_x or next_y - y > 0.8 * size, view
        page.locator("[data-panel=tree] .cs-full").click()
        page.wait_for_function("Canopy.parts.frames.settled")


def test_what_has_no_room_in_a_line_of_names_is_counted_and_can_be_opened(onlooker: Watched) -> None:
    page = show(onlooker, "#mode=workbench", (1024, 768))
    upload(page, "ddtree.jsonl", dumps(scripted_trace("ddtree", 64)))
    page.wait_for_function("Canopy.parts.frames.settled")
    numbers = page.locator("[data-panel=tree] .cp-label.is-fold")
    unnamed = f"""[...{TREE}.layout.places.keys()].filter((node) => (
        !document.querySelector(`[data-panel=tree] .cp-label[data-label="${{node}}"]`))).length"""
    before = page.evaluate(unnamed)
    assert before == sum(map(int, numbers.all_text_contents())) > 0
    numbers.first.click()
    page.wait_for_function(f"{TREE}.camera.held")
    page.wait_for_function("!document.querySelector('[data-panel=tree] .cp-label.is-fold')")
    assert page.locator("[data-panel=tree] .cp-tip").is_hidden()
    page.get_by_role("button", name="Fit the tree").click()
    assert page.evaluate(unnamed) == before


def test_a_tooltip_covers_no_word_of_the_accepted_path(onlooker: Watched) -> None:
    page = show(onlooker, "#trace=merged&mode=workbench&round=3", LAPTOP)
    page.wait_for_function(f"{RUN} === 'merged' && Canopy.parts.frames.settled")
    tip, words = page.locator("[data-panel=tree] .cp-tip"), page.locator("[data-panel=tree] .cp-label.is-path")
    for item in page.locator("[data-panel=tree] .cp-item").all()[1::4]:
        item.hover(force=True)
        while not tip.is_visible():  # the tree moves once more if its panel is laid out late
            page.mouse.move(3, 3)
            item.hover(force=True)
        over = tip.bounding_box()
        for box in [word.bounding_box() for word in words.all()]:
            assert over["y"] >= box["y"] + box["height"] or over["y"] + over["height"] <= box["y"] or (
                over["x"] >= box["x"] + box["width"] or over["x"] + over["width"] <= box["x"])


def test_legends_are_not_cut_on_a_laptop(onlooker: Watched) -> None:
    page = show(onlooker, "#trace=merged&mode=workbench&round=3", LAPTOP)
    page.wait_for_function(f"{RUN} === 'merged' && Canopy.parts.frames.settled")
    for panel in page.locator("[data-panel]:visible").all():
        frame = panel.bounding_box()
        for entry in panel.locator(".cs-legend li:visible").all():
            box = entry.bounding_box()
            assert box["x"] + box["width"] <= frame["x"] + frame["width"], entry.inner_text()
            assert frame["y"] <= box["y"], entry.inner_text()
            assert box["y"] + box["height"] <= frame["y"] + frame["height"], entry.inner_text()
        assert panel.locator(".cs-legend").evaluate_all(CUT) == []
    page.locator("[data-panel=verifier]").evaluate("(frame) => { frame.style.maxWidth = '242px'; }")
    legend = page.locator("[data-panel=verifier] .cs-legend")
    page.wait_for_function("(legend) => legend.offsetHeight < 30", arg=legend.element_handle())
    assert legend.locator("li[title]:visible").count() == legend.locator("li:visible").count()
    page.locator("[data-panel=verifier]").evaluate("(frame) => { frame.style.maxWidth = ''; }")


def test_legends_name_the_drafters_of_the_run(onlooker: Watched) -> None:
    page = onlooker.show("#trace=merged&mode=workbench&round=3")
    upload(page, "one.jsonl", dumps(scripted_trace("ddtree", 20)))
    legend = page.locator("[data-panel=text] .cs-legend li:visible")
    page.wait_for_function(f"{STAGE}.header.method === 'ddtree'")
    assert [text.split()[-1] for text in legend.all_inner_texts()] == ["target", "story"]
    assert "drafter story" in page.locator(".cp-marginals .cp-svg").text_content()


def test_a_long_comment_can_be_read_to_its_end_by_touch(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 1024, "height": 768}, has_touch=True, is_mobile=True)
    with watch(context, address) as watched:
        page = watched.open(f"{address}#trace=merged&mode=workbench&round=3")
        page.evaluate("Canopy.parts.notices.note.say('a comment '.repeat(50), '×')")
        assert page.evaluate("(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)"
                             "(document.querySelector('.cs-notice.is-note p'))")
    context.close()


def test_damaged_saved_sizes_are_ignored(watched: Watched, address: str) -> None:
    for kept in ("{", "null"):
        watched.page.evaluate(f"localStorage.setItem('canopy-sizes', '{kept}')")
        assert watched.open(f"{address}#mode=workbench").locator(".cs-frame-tree").is_visible()
        watched.page.goto(f"{address}robots.txt")


def test_a_notice_moves_nothing_in_the_workbench(onlooker: Watched) -> None:
    page = onlooker.show("#trace=merged&mode=workbench&round=3")
    places = "Array.from(document.querySelectorAll('.cs-metrics, .cs-frame, .cs-timeline'), (part) => part.offsetTop)"
    before = page.evaluate(places)
    page.evaluate("Canopy.parts.notices.fail('The prompt is empty: write something.')")
    assert page.locator(".cs-notice:visible").count() == 1 and page.evaluate(places) == before
    page.keyboard.press("Escape")
    assert page.evaluate(places) == before


def test_a_phone_shows_the_main_parts_first_and_the_rest_after_one_tap(onlooker: Watched) -> None:
    page = onlooker.show("#trace=merged&mode=workbench&round=3")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert page.evaluate("document.documentElement.scrollHeight") <= 2000
    tops = [page.locator(part).bounding_box()["y"] for part in (
        "[data-panel=text]", "[data-panel=tree]", "[data-panel=budget]", ".cs-timeline", "[data-panel=marginals]")]
    assert tops == sorted(tops)
    steps = page.locator("[data-panel=verifier] .cp-step")
    assert not steps.first.is_visible()
    page.mouse.wheel(0, 2000)
    page.wait_for_function("window.scrollY > 400")
    head = page.locator("[data-panel=verifier] .cs-frame-title").bounding_box()
    page.mouse.click(head["x"] + 20, head["y"] + 8)
    assert steps.first.is_visible() and page.locator(".cs-timeline").bounding_box()["y"] < PHONE[1]
    page.keyboard.press("Escape")


@pytest.mark.long
def test_light_and_dark_follow_the_system_and_the_switch(watched: Watched, address: str) -> None:
    watched.page.emulate_media(color_scheme="dark")
    page = watched.open(address)
    ground = "getComputedStyle(document.querySelector('.cs-frame')).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light or dark").click()
    light = page.evaluate(ground)
    assert dark != light == "rgb(255, 255, 255)"
    page.reload()
    page.wait_for_selector(".cs-frame")
    page.wait_for_function(f"{ground} === '{light}'")


@pytest.mark.long
def test_dividers_can_be_dragged_and_keep_their_place(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    width = "document.querySelector('[data-panel=marginals]').getBoundingClientRect().width"
    before = page.evaluate(width)
    divider = page.locator(".cs-lower .cs-divider").first
    box = divider.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 84, box["y"] + 40, steps=4)
    page.mouse.up()
    wide = page.evaluate(width)
    assert abs(wide - before - 80) < 12
    divider.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(width) < wide - 10
    watched.open(f"{address}#mode=workbench")
    page.reload()
    page.wait_for_selector(".cs-frame")
    page.wait_for_function(f"{width} > {before} + 20")
