"""The workbench's tools: a tree shaded by how often positions were kept, a lens over the mask, a timeline with an axis,
and the node budget tuned by eye."""

from typing import Any

import pytest

from tests.browser.actions import STAGE, ask, finish, show_as, show_round, start
from tests.browser.conftest import Watched
from tests.explorer.scripted import ENDLESS

TREE, MASK, BUDGET = (f"Canopy.parts.frames.entries.get('{name}').panel" for name in ("tree", "mask", "budget"))
BUDGET_INPUT = "document.querySelector('#canopy-budget input').value"
DRAWN = "document.querySelectorAll('[data-panel=tree] [role=treeitem]').length"


@pytest.fixture
def page(onlooker: Watched) -> Any:
    """Provide the page on the fourth round of the merged recording. A test may leave a button pressed, and changes that
    another run undoes."""
    page = onlooker.page
    page.emulate_media(reduced_motion="reduce")
    page.mouse.move(0, 0)
    onlooker.show("#trace=plain&mode=workbench")
    onlooker.show("#trace=merged&mode=workbench&round=4")
    page.wait_for_function(f"{STAGE}.value.run === 'merged' && {STAGE}.current === 3")
    for pressed in page.locator(":is([data-panel=tree], .cs-timeline) button[aria-pressed=true]:visible").all():
        pressed.click()
    page.wait_for_function("Canopy.parts.frames.settled")
    return page


def test_an_icicle_zooms_into_a_subtree_and_back(page: Any) -> None:
    page.locator("[data-panel=tree] button", has_text="icicle").click()
    low = page.add_style_tag(content="[data-panel=tree] { height: 130px !important; }")
    words = page.locator("[data-panel=tree] .cp-cell-text.is-normal")
    page.wait_for_function(f"Canopy.parts.frames.settled && {TREE}.height < 120")
    assert words.count() == 0
    wide = f"[0, 1, 2].map((node) => {TREE}.marks.shown(node) && Math.round({TREE}.marks.boxOf(node).width))"
    whole = page.evaluate(wide)
    assert whole[0] > whole[1] and whole[2]
    box = page.locator("[data-panel=tree] svg.cp-svg").bounding_box()
    x, y = page.evaluate(f"{TREE}.marks.at(1)")
    page.mouse.dblclick(box["x"] + x, box["y"] + y)
    page.wait_for_function(f"{TREE}.marks.boxOf(1).width > {whole[0]} - 1", timeout=20000)
    assert words.count(), "rows of a zoomed part have room for words"
    page.keyboard.press("Escape")
    assert page.evaluate(wide) == whole
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"{TREE}.marks.boxOf(1).width > {whole[1]}")
    page.locator("[data-panel=tree] button", has_text="fit").click()
    assert page.evaluate(wide) == whole
    bundled = page.evaluate(f"Array.from({TREE}.marks.bundled)[0]")
    x, y = page.evaluate(f"{TREE}.marks.at({bundled})")
    page.mouse.click(box["x"] + x, box["y"] + y)
    page.wait_for_function(f"!{TREE}.marks.bundled.has({bundled})")
    assert page.evaluate(f"{STAGE}.pinned") is None
    x, y = page.evaluate(f"{TREE}.marks.at(0)")
    page.mouse.click(box["x"] + x, box["y"] + y)
    page.wait_for_function(f"{TREE}.marks.bundled.has({bundled})")
    low.evaluate("(style) => style.remove()")


def test_a_narrow_rejected_cell_of_an_icicle_does_not_look_accepted(page: Any) -> None:
    page.locator("[data-panel=tree] button", has_text="icicle").click()
    page.wait_for_function("document.querySelector('[data-panel=tree] .cp-node.is-cell')")
    fills = "(all) => all.map((each) => getComputedStyle(each).fill)"
    narrow = page.locator("[data-panel=tree] .cp-bundle").evaluate_all(fills)
    assert narrow and not set(narrow) & set(page.locator("[data-panel=tree] .cp-node.is-accepted").evaluate_all(fills))


def test_a_frame_draws_the_panels_that_it_has_time_for(page: Any) -> None:
    page.wait_for_function("Canopy.parts.frames.settled")
    page.evaluate("""() => {
        let clock = performance.now();
        window.drawn = [];
        performance.now = () => clock;
        for (const [name, { panel }] of Canopy.parts.frames.entries) {
            const draw = panel.draw.bind(panel);
            panel.draw = (round) => {
                drawn.push([name, document.timeline.currentTime]);
                draw(round);
                if (name === "tree") clock += 100;
            };
        }
        Canopy.parts.player.step(1);
    }""")
    page.wait_for_function("drawn.some(([name]) => name === 'cache') && Canopy.parts.frames.settled")
    names, times = zip(*page.evaluate("drawn"), strict=True)
    page.evaluate("delete performance.now")
    assert names[0] == "tree" and times[0] < times[1], "the tree took all of its frame"
    assert len(names) >= 6 and times[1] == times[4], "the others are drawn together"


def test_fast_changes_of_round_draw_complete_trees_and_the_same_round_everywhere(page: Any) -> None:
    page.emulate_media(reduced_motion="no-preference")
    partial, apart = page.evaluate("""async () => {
        const { stage, frames } = Canopy.parts;
        const entries = [...frames.entries.values()];
        const shown = () => entries.filter((entry) => frames.isShown(entry)).map(({ panel }) => panel.round);
        let [now, partial, apart] = [performance.now(), 0, 0];
        performance.now = () => (now += 9); // a panel a frame, however fast the machine is
        for (let index = 0; index < stage.rounds.length; index++) {
            stage.go(index, { animate: true });
            for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
            const tree = frames.entries.get("tree").panel;
            partial += Number(tree.round.index > 0 && tree.limit !== null);
            apart += Number(new Set(shown()).size > 2); // one round takes the place of another
        }
        delete performance.now;
        return [partial, apart];
    }""")
    assert partial == apart == 0


def test_a_lens_magnifies_the_mask_beside_the_pointer(page: Any) -> None:
    page.set_viewport_size({"width": 760, "height": 760})
    page.locator("[data-panel=mask] .cs-full").click()
    page.wait_for_timeout(500)
    left, top, side = (page.evaluate(f"{MASK}.grid.{name} * {MASK}.canvas.currentCSSZoom")
                       for name in ("left", "top", "side"))
    box, lens = (page.locator(f"[data-panel=mask] {part}") for part in ("svg.cp-svg", ".cp-lens rect"))
    at = box.bounding_box()
    assert lens.count() == 0
    places = []
    for x, y in ((side * 0.3, side * 0.6), (side - 4, 4)):
        page.mouse.move(at["x"] + left + x, at["y"] + top + y)
        places.append(lens.bounding_box())
    corner, moved = places
    assert abs(corner["x"] + corner["width"] - at["x"] - left - side) < 2
    assert moved["x"] + moved["width"] < corner["x"] + corner["width"], "the lens does not cover the pointer"


def test_the_timeline_has_a_time_axis_zooms_and_sums_a_selection(page: Any) -> None:
    bars = page.locator(".cs-bars")
    page.wait_for_function("document.querySelector('.cs-ruler')")
    box = bars.bounding_box()
    edges = page.evaluate("Array.from({ length: 7 }, (_, index) => 36 + Canopy.parts.timeline.axis.x(index))")
    page.mouse.move(box["x"] + edges[3] + 5, box["y"] + 6)  # drag along the ruler
    page.mouse.down()
    page.mouse.move(box["x"] + edges[5] + 5, box["y"] + 6, steps=4)
    page.mouse.up()
    assert page.evaluate(f"{STAGE}.current") == 3
    rounds = page.evaluate(f"{STAGE}.rounds.slice(3, 6).map(({{ keep, spent }}) => [keep.length, spent])")
    tokens, spent = sum(row[0] for row in rounds), sum(row[1] for row in rounds)
    words = page.locator(".cs-totals").inner_text()
    figures, parts = words.split(" ms: ")
    assert figures == f"3 rounds: {tokens} tokens (τ {tokens / 3:.2f}), {1000 * spent:.1f}"
    assert abs(sum(float(part.split()[1]) for part in parts.split(", ")) - 1000 * spent) < 0.5
    page.keyboard.press("Escape")
    assert page.locator(".cs-totals").inner_text() == ""
    page.locator(".cs-by-time").click()
    box, last = bars.bounding_box(), page.evaluate(f"{STAGE}.rounds.length")
    middle, end = box["width"] / 2, box["width"] - 7

    def round_at(x: float) -> int:
        page.mouse.move(box["x"] + x, box["y"] + 20)
        return int(page.locator(".cs-bar-tip").inner_text().split(":")[0].split()[-1])
    before = round_at(middle)
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(300)
    assert round_at(end) < last, "the end of the run is not visible"
    assert round_at(middle) == before, "the round under the pointer stayed"
    bars.focus()
    page.keyboard.press("0")
    page.wait_for_timeout(300)
    assert round_at(end) == last
    bars.focus()
    page.keyboard.press("+")
    show_as(page, "another")
    page.wait_for_timeout(300)
    assert round_at(end) == last and page.locator(".cs-totals").inner_text() == "", "another run is shown completely"


def wait_for_forecast(page: Any, watched: str) -> Any:
    """Return a forecast that has this figure. Do both in one step, since each new round clears it until the next."""
    return page.wait_for_function(f"{BUDGET}.forecast?.{watched} && {BUDGET}.forecast").json_value()


def test_a_budget_is_tried_out_on_the_shown_round_and_then_run_in_full(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&method=ddtree&budget=4")
    page.evaluate(f"""() => {{
        const {{ server }} = {STAGE}, predict = server.budgets.bind(server);
        const ratio = (budget) => 60 * (budget === 16 ? 3 : 1);
        server.compare = async () => ({{ job: "made up" }});
        server.compared = async () => ({{ state: "done", result: {{
            state: "ended", text: {{ words: "" }}, tracks: {{}}, others: [],
            speed: {{ outcome: "faster", ratio: 1.1, range: "1.05 to 1.2", speed: "66", plain_speed: "60" }} }} }});
        server.budgets = async (asked) => {{
            const answer = await predict(asked), mean = answer.budgets.map(ratio);
            return {{ ...answer, withheld: "", plain: 60, speed: {{ mean, low: mean, high: mean }} }};
        }};
    }}""")
    page.wait_for_function(f"{BUDGET_INPUT} === '4'")
    start(page, "ddtree")
    finish(page)
    prediction = wait_for_forecast(page, "tau")
    assert prediction["tau"]["mean"] == sorted(prediction["tau"]["mean"])
    page.locator(".cp-budget-head p", has_text="16 nodes").wait_for()
    page.locator(".cp-budget-head").get_by_role("button", name="Use").click()
    page.wait_for_function(f"{BUDGET_INPUT} === '16'")

    page.evaluate(f"{STAGE}.go(1, {{}})")
    page.wait_for_function(f"{DRAWN} === {STAGE}.round.n")
    kept, drawn = page.evaluate(f"[{STAGE}.round.keep.length, {DRAWN}]")
    slider = page.locator(".cp-budget .cp-svg")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 0.82 * box["width"], box["y"] + box["height"] / 2)
    page.wait_for_function(f"{STAGE}.budgetPreview.round && {DRAWN} > {drawn}")
    tried = page.evaluate(f"{STAGE}.budgetPreview.budget")
    assert tried > 32 and page.evaluate(f"{STAGE}.round.keep.length") > kept
    page.wait_for_function(f"{BUDGET_INPUT} === '{tried}'")
    assert slider.evaluate("slider => getComputedStyle(slider).outlineStyle") == "none", "a click draws no outline"
    ends = page.locator(".cp-budget-trail").first.evaluate("""mark => [mark.getBoundingClientRect().right,
        mark.parentNode.querySelector(".is-own").getBoundingClientRect().left]""")
    assert ends[0] <= ends[1], "the rounds stand beside the budgets"
    figures = page.locator(".cp-budget-head p").first.inner_text()
    assert f"{tried} nodes" in figures and "predicted" in figures
    slider.press("ArrowLeft")
    page.wait_for_function(f"{STAGE}.budgetPreview.round.budget === {tried // 2} && {BUDGET_INPUT} === '{tried // 2}'")
    restored = page.evaluate("""async () => {
        const { stage, address } = Canopy.parts;
        history.replaceState(null, "", address.text());
        await stage.tryBudget(null);
        await address.restore();
        return stage.budgetPreview.round.budget;
    }""")
    assert restored == tried // 2, "its address holds it"
    page.get_by_role("button", name="Show the tree as it was run").click()
    page.wait_for_function(f"!{STAGE}.budgetPreview.round && {DRAWN} === {drawn}")

    start(page, "ddtree")
    finish(page)
    assert page.evaluate(f"[{STAGE}.header.budget, {STAGE}.header.pace]") == [tried // 2, "fixed"]
    page.wait_for_function("document.querySelectorAll('.cp-budget-point:not(.is-own)').length === 2")  # the first run


def test_a_prediction_is_drawn_while_the_run_goes_on(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&method=ddtree&budget=2")
    page.wait_for_function(f"{BUDGET_INPUT} === '2'")
    ask(page, ENDLESS)
    start(page, "ddtree")
    prediction = wait_for_forecast(page, "tau")
    assert page.evaluate(f"{STAGE}.live") and prediction["rounds"] > 0
    page.click("#canopy-stop")


def test_a_prediction_is_requested_again_if_something_was_measured_while_it_was_hidden(page: Any) -> None:
    wait_for_forecast(page, "tau")
    assert page.evaluate(f"""(() => {{
      const [stage, panel] = [{STAGE}, {BUDGET}];
      const {{ budgets }} = stage.server;
      let asked = 0;
      stage.server.budgets = () => {{ asked += 1; return new Promise(() => {{}}); }};
      stage.comparison = {{ ...stage.comparison, speed: {{ ...stage.comparison.speed, withheld: "too unsteady" }} }};
      panel.draw(stage.round);
      stage.server.budgets = budgets;
      return asked;
    }})()""") == 1


def test_a_run_branches_off_at_a_rejected_node_and_links_back(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&method=ddtree&budget=16")
    page.wait_for_function(f"{BUDGET_INPUT} === '16'")
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
    assert page.evaluate(f"{STAGE}.overlaidRuns[0].run") == first
    page.locator(".cs-forced button").click()
    page.wait_for_function(f"{STAGE}.value.run === '{first}'")
    show_round(page, 1)
    before = page.evaluate(f"{STAGE}.rounds[0].keep.map((node) => {STAGE}.rounds[0].tokens[node])")
    root, other = page.evaluate(f"[{STAGE}.round.tokens[0], {STAGE}.round.alternatives[0][1].token]")
    page.locator(".cp-step-number").first.click()
    page.locator(".cp-step").first.locator(".cp-others button").click()
    page.wait_for_function(f"{STAGE}.header.forced && {STAGE}.value.state === 'done'")
    assert page.evaluate(f"{STAGE}.header.prompt_ids.slice(-{STAGE}.header.forced)") == [*before, root, other]


def test_a_small_tree_is_enlarged_and_its_nodes_are_found_by_the_pointer(page: Any) -> None:
    page.evaluate(f"{STAGE}.tryBudget(3)")
    page.wait_for_function(f"{DRAWN} === 4 && {TREE}.scale > 1")
    node = page.locator("[data-panel=tree] [data-node='2']")
    assert node.evaluate("(node) => node.currentCSSZoom") == pytest.approx(page.evaluate(f"{TREE}.scale"), abs=0.01)
    while page.evaluate(f"{STAGE}.selection.node") != 2:  # it moves once more if its panel is laid out late
        box = node.bounding_box()
        page.mouse.move(3, 3)
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(200)
