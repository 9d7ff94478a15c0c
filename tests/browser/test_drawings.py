"""The panels draw a round as its trace says: the accepted path on its own line, the mask's cells, the walk, the cache's
rows, the text. What they read from a round is tested in tests/node."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import expect

from engine.records import Lattice
from engine.trace import Trace, dumps
from tests.browser.actions import STAGE, ask, current_trace, run, show_round, upload
from tests.browser.conftest import READY, Watched
from tests.browser.serve import wide_trace
from tests.engine.helpers import ancestors
from tests.explorer.scripted import scripted_trace

FRAMES = "Canopy.parts.frames"
TREE, MARGINALS = (f"{FRAMES}.entries.get('{name}').panel" for name in ("tree", "marginals"))
DRAWN = """() => {
    const all = (selector, read) => Array.from(document.querySelectorAll(selector), read);
    const text = (mark) => mark.textContent;
    const node = (mark) => Number(mark.dataset.node);
    const { stage, frames } = Canopy.parts;
    const panel = (name) => frames.entries.get(name).panel;
    const mask = panel("mask");
    const { round } = stage;
    panel("verifier").finish();
    panel("tree").marks.drawItems();
    return {
        round: [round.n, round.keep],
        signs: [...round.keep.map((kept) => round.tokens[kept]), round.bonus].map(round.show),
        nodes: all("[data-panel=tree] [role=treeitem]", (mark) => [node(mark), Number(mark.getAttribute("cy")),
            Number(mark.getAttribute("aria-level"))]),
        labels: all("[data-panel=tree] .cp-label.is-path", text),
        ticks: all("[data-panel=tree] .cp-tick", node).length,
        cell: mask.grid.cell,
        cells: all("[data-panel=mask] .cp-mask-cells path", (path) => path.getAttribute("d")).join("")
            .matchAll(/M([^,]+),([^h]+)h/g).map(([, x, y]) => [y - mask.grid.top, x - mask.grid.left]
                .map((at) => Math.round(at / mask.grid.cell))).toArray(),
        mask: mask.canvas.getAttribute("aria-label"),
        steps: all("[data-panel=verifier] .cp-step", node),
        verdicts: all("[data-panel=verifier] .cp-token.is-kept", text),
        cache: panel("cache").canvas.getAttribute("aria-label"),
        slots: all("[data-panel=cache] .cp-slot-number", (mark) => [text(mark), Number(mark.getAttribute("y"))])
            .filter(([words, y]) => y > panel("cache").low.y && words !== "row kept").map(([words]) => words),
        text: all(`.cs-part[data-round="${stage.current}"] .cs-token`, node),
    };
}"""


def check_drawing(page: Any, trace: Trace, index: int) -> None:
    """Assert that the screen shows the round as its trace says."""
    show_round(page, index)
    entry, drawn = trace.entries[index].round, page.evaluate(DRAWN)
    size, keep, start = len(entry.tree), entry.acceptance.keep.tolist(), entry.start
    assert drawn["round"] == [size, keep] and drawn["steps"] == drawn["text"] == keep
    seen = ancestors(entry.tree.parents)
    line = drawn["nodes"][0][1]
    assert [node for node, y, _ in drawn["nodes"] if y == line] == keep, "the path is alone on its line"
    assert [level for *_, level in drawn["nodes"]] == seen.sum(1).tolist()
    assert drawn["ticks"] == len(drawn["verdicts"]) == len(keep) - 1
    assert drawn["verdicts"] == drawn["signs"][1:-1]
    for label, sign in zip(drawn["labels"], drawn["signs"], strict=True):
        assert sign.startswith(label.removesuffix("…"))
    assert f"{seen.sum()} cells seen" in drawn["mask"]
    assert drawn["cell"] < 2 or sorted(drawn["cells"]) == np.argwhere(seen).tolist()
    still = sum(node == place for place, node in enumerate(keep))
    moved = f", {len(keep) - still} moved" if still < len(keep) else ""
    dropped = f", {size - len(keep)} dropped" if size > len(keep) else ""
    assert drawn["cache"].endswith(
        f"{start} slots before, {start + size} after verify, {start + len(keep)} after keep; kept rows "
        f"{', '.join(map(str, keep))}; rows: {still} in place{moved}{dropped}")
    assert drawn["slots"] == [str(node) for node in keep]


def open_workbench(onlooker: Watched, trace: Trace) -> Any:
    """Return the workbench on a trace file."""
    page = onlooker.show("#mode=workbench")
    method = trace.header.request.method
    upload(page, f"{method}.jsonl", dumps(trace))
    assert page.evaluate(f"{STAGE}.header.method") == method
    show_round(page, 0)
    return page


@pytest.mark.parametrize("method", ["autoregressive", "ddtree", "merged", "nanogpt"])  # 0, 1, 2 drafts, depth-first
def test_the_panels_draw_what_the_trace_says(onlooker: Watched, method: str) -> None:
    trace = scripted_trace(method, 64)
    page = open_workbench(onlooker, trace)
    for index in (0, len(trace.entries) // 2, len(trace.entries) - 1):
        check_drawing(page, trace, index)


def test_a_large_tree_is_drawn_as_its_trace_says(onlooker: Watched) -> None:
    onlooker.show("#trace=wide&mode=workbench&round=1")
    onlooker.page.locator("[data-panel=tree] button", has_text="icicle").click()  # the default for a large tree
    check_drawing(onlooker.page, wide_trace(), 1)


def test_a_large_tree_folds_narrow_siblings_until_a_person_chooses_the_tree(onlooker: Watched) -> None:
    page = onlooker.show("#trace=wide&mode=workbench&round=1")
    page.reload()  # forget the chosen drawing
    page.wait_for_function(READY)
    tree = page.locator("[data-panel=tree]")
    expect(tree.locator(".cp-bundle").first).to_be_attached()
    assert all(text.startswith(("+", "…")) for text in tree.locator(".cp-cell-text.is-quiet").all_text_contents())
    expect(tree.locator(".cp-cell-text", has_text="◂")).to_have_count(0)
    tree.get_by_role("button", name="Zoom in").click()
    expect(tree.locator(".cp-cell-text", has_text="◂").first).to_be_attached()  # it leads back
    tree.get_by_role("button", name="fill the window").click()
    expect(tree.locator(".cp-bundle").first).to_be_attached()
    tree.get_by_role("button", name="icicle").click()
    expect(tree.locator(".cp-edge").first).to_be_attached()
    page.go_back()
    page.wait_for_selector(".is-full", state="detached")
    tree.get_by_role("button", name="Fit the tree").click()


def test_a_live_run_is_drawn_as_its_trace_says(onlooker: Watched) -> None:
    page = onlooker.show("#mode=workbench")
    ask(page, "A question that nobody asked before")
    run(page, "merged")
    trace = current_trace(page)
    for index in (0, len(trace.entries) // 2, len(trace.entries) - 1):
        check_drawing(page, trace, index)


def test_pictures_of_the_batch_and_the_timeline_are_self_contained(onlooker: Watched) -> None:
    page = open_workbench(onlooker, scripted_trace("merged", 64))
    page.evaluate(f"""() => {{
        const blocks = [0, 1].map((seat) => ({{ seat, parents: [0, 0], keep: [0], poolsRows: false }}));
        {STAGE}.round.shared = {{ runs: 2, own: 0, blocks }};
        {STAGE}.run.present.shared = true;
        {FRAMES}.requestDraw();
    }}""")
    page.wait_for_function(f"!{FRAMES}.planned")
    for name, drawn in page.evaluate(f"Array.from({FRAMES}.entries, ([name, {{ panel }}]) => [name, panel.svg()])"):
        assert len(list(ElementTree.fromstring(drawn).iter())) > 10, name
        assert "var(" not in drawn and "class=" not in drawn, name
    page.get_by_role("button", name="Save or share this run").click()
    with page.expect_download() as saved:
        page.get_by_role("menuitem", name="Timeline SVG").click()
    assert saved.value.suggested_filename == "timeline-round-1.svg"
    page.get_by_role("button", name="Save or share this run").click()
    with page.expect_download() as saved:
        page.get_by_role("menuitem", name="Draft tree SVG").click()
    legend = page.locator("[data-panel=tree] .cs-legend li:visible span:last-child").all_inner_texts()
    assert all(words in saved.value.path().read_text() for words in legend), "a picture has its complete legend"


def test_every_panel_says_when_there_is_no_round(onlooker: Watched) -> None:
    page = open_workbench(onlooker, scripted_trace("routed", 32))
    empty = page.evaluate(f"""Array.from({FRAMES}.entries.values(), ({{ body, panel }}) => {{
        panel.draw(null);
        return [body.querySelector(".cp-empty").hidden, panel.svg()];
    }})""")
    assert empty == [[False, None]] * 7 and page.locator("[role=treeitem]").count() == 0


def with_transitions(marginals: Lattice) -> Lattice:
    """Give the likeliest tokens of each depth one row for each token before them: (depths, 16, 16). The likeliest token
    may follow any of them; each other token is likelier after one of them."""
    tokens, unary = marginals.tokens[:, 0, :16], marginals.logprobs[:, 0, :16]
    scores = unary[:, None] + np.where(np.eye(16, k=1), 3, 0).astype(np.float32)
    scores -= np.logaddexp.reduce(scores, -1, keepdims=True)
    scores[0, 1:] = -np.inf
    follow = (-scores).argsort(-1, kind="stable").astype(np.int32)
    rows = np.arange(len(tokens))[:, None, None]
    return Lattice(tokens[rows, follow], np.take_along_axis(scores, follow, -1), follow)


def test_transitions_are_drawn_and_a_candidate_shows_what_it_changes(onlooker: Watched) -> None:
    trace = scripted_trace("ddtree", 24)
    entries = [replace(entry, round=replace(entry.round, drafts=tuple(map(with_transitions, entry.round.drafts))))
               for entry in trace.entries]
    page = open_workbench(onlooker, replace(trace, entries=tuple(entries)))
    tree = entries[0].round.tree
    guesses = f"{MARGINALS}.hits.filter(({{ transition }}) => transition)"
    outlined = page.evaluate(f"{guesses}.filter(({{ node }}) => node !== null).map(({{ id }}) => id)")
    assert set(outlined) == set(tree.tokens[1:].tolist())
    assert page.evaluate(f"{MARGINALS}.svg()").count("<path") >= len(tree) - 1, "the tree's edges at least"
    x, y = page.evaluate(f"(({{ x, y }}) => [x + 4, y + 4])({guesses}[0])")
    drawing = page.locator(".cp-marginals .cp-svg")
    drawing.hover(position={"x": x, "y": y})
    assert page.locator(".cp-change-mark").count() > 2
    assert "on average" in page.locator(".cp-marginals .cp-tip").inner_text()
    drawing.focus()
    page.keyboard.press("ArrowDown")
    node, token = page.evaluate(f"(({{ node, id }}) => [node, id])({MARGINALS}.focusedHit)")
    assert node is None or int(tree.tokens[node]) == token
