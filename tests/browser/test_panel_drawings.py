"""The draft tree as drawn equals the round's: every node once, no crossing, the kept path straight; and what holds
for all panels: tokens as typed, stills that stand alone, one selection, words where there is no round."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from engine.decoding.tree import ancestors, depths
from engine.trace import Block, SharedPass
from explorer.view import company_view
from tests.browser.drawn_rounds import CASES, ODD, PANELS, circles, drawing_page, make, show

SIGNS = ("${7*6}", "</script><script>window.ran=1</script>", "⏎", "⇥", "␣שלום", "👩⟨200d⟩👩⟨200d⟩👧",
         "<b>bold</b>", "⟨e2⟩⟨82⟩")  # how the odd tokens are shown


@pytest.fixture(scope="module")
def drawings(browser: Any) -> Iterator[Any]:
    """A page with the panels alone."""
    with drawing_page(browser) as page:
        yield page


@pytest.mark.parametrize(("method", "budget"), CASES)
def test_tree_draws_every_node_once_at_its_depth(drawings: Any, method: str, budget: int) -> None:
    made = make(method, budget)
    show(drawings, made)
    drawn = circles(drawings)
    depth = depths(made.round.tree.parents)
    assert [mark["node"] for mark in drawn] == list(range(len(made.round.tree)))
    assert [mark["level"] for mark in drawn] == (depth + 1).tolist()
    columns = {level: {mark["x"] for mark in drawn if depth[mark["node"]] == level} for level in set(depth.tolist())}
    assert all(len(xs) == 1 for xs in columns.values())
    places = {(round(mark["x"], 1), round(mark["y"], 1)) for mark in drawn}
    assert budget > 500 or len(places) == len(drawn)


@pytest.mark.parametrize(("method", "budget"), CASES)
def test_no_two_edges_cross(drawings: Any, method: str, budget: int) -> None:
    """Between two columns all curves bend alike, so they cross exactly where the order of their ends differs."""
    made = make(method, budget)
    show(drawings, made)
    parents = made.round.tree.parents
    rows = drawings.evaluate("[...panels.tree.layout.rows]")
    depth = depths(parents)
    for level in range(1, int(depth.max()) + 1):
        ends = sorted((rows[node], rows[parents[node]]) for node in np.flatnonzero(depth == level))
        assert len({end for end, _ in ends}) == len(ends)
        assert all(above[1] <= below[1] for above, below in zip(ends, ends[1:], strict=False))


@pytest.mark.parametrize(("method", "budget"), CASES)
def test_accepted_path_is_one_line_and_alone_on_it(drawings: Any, method: str, budget: int) -> None:
    made = make(method, budget)
    show(drawings, made)
    keep = made.round.acceptance.keep.tolist()
    drawn = circles(drawings)
    line = drawn[0]["y"]
    assert [mark["node"] for mark in drawn if mark["y"] == line] == keep
    labels = drawings.locator(".cp-label.is-path").all_text_contents()
    assert len(labels) == len(keep) + 1
    ticks = drawings.locator(".cp-tick").count()
    assert ticks == len(keep) - 1


def test_node_is_named_for_a_screen_reader(drawings: Any) -> None:
    made = make("ddtree", 64)
    show(drawings, made)
    tree, node = made.round.tree, int(made.round.acceptance.keep[1])
    name = circles(drawings)[node]["name"]
    chance = float(np.exp(tree.logprobs[node]))
    assert "depth 1" in name and "accepted" in name and "drafter 1" in name
    assert abs(float(name.split("probability ")[1].split(",")[0]) - chance) < 0.006


def test_tokens_are_shown_as_typed(drawings: Any) -> None:
    made = make("dflash", 12, len(ODD))
    show(drawings, made)
    drawn = circles(drawings)
    path = made.round.acceptance.keep.tolist()[1:]
    assert made.round.tree.tokens[path].tolist() == list(range(len(ODD)))
    labels = drawings.locator(".cp-label.is-path").all_text_contents()[1:]
    verdicts = drawings.locator(".cp-token.is-kept").all_text_contents()
    for node, label, verdict, sign in zip(path, labels, verdicts, SIGNS, strict=False):
        assert verdict == sign and sign.startswith(label.removesuffix("…"))
        raw = ODD[int(made.round.tree.tokens[node])]
        assert drawn[node]["name"].startswith(f"'{raw if isinstance(raw, str) and raw.strip() else sign}'")
    assert drawings.evaluate("window.ran") is None
    assert drawings.locator("b").count() == 0


def test_stills_stand_alone(drawings: Any) -> None:
    made = make("merged", 64)
    shape = Block(0, made.round.tree.parents, made.round.acceptance.keep)
    made.value["rounds"][0] |= company_view(SharedPass(2, 0, (shape, replace(shape, seat=1))))
    show(drawings, made)
    for name in PANELS:
        drawn = drawings.evaluate("(name) => panels[name].svg()", name)
        root = ElementTree.fromstring(drawn)
        assert root.tag.endswith("svg") and len(list(root.iter())) > 20, name
        assert "var(" not in drawn and "class=" not in drawn, name


def test_selection_reaches_every_panel_and_keys_walk_the_tree(drawings: Any) -> None:
    made = make("ddtree", 64)
    show(drawings, made)
    node = int(made.round.acceptance.keep[1])
    drawings.evaluate("(node) => stage.hover(node)", node)
    assert drawings.locator(".cp-ring").get_attribute("display") == "inline"
    assert drawings.locator(".cp-cell-ring").get_attribute("d")
    assert drawings.locator(".cp-slot-mark").get_attribute("d")
    assert drawings.locator(".cp-steps .is-selected").count() > 0
    lit = drawings.evaluate("""() => { const data = panels.mask.over.getContext("2d")
        .getImageData(0, 0, panels.mask.over.width, panels.mask.over.height).data;
        return data.some((value) => value > 0); }""")
    assert lit
    drawings.locator("[role=treeitem][tabindex='0']").focus()
    drawings.keyboard.press("ArrowRight")
    assert drawings.evaluate("stage.selection.node") == node
    drawings.keyboard.press("ArrowLeft")
    assert drawings.evaluate("stage.selection.node") == 0


def test_subtrees_fold_and_a_search_finds_what_is_folded(drawings: Any) -> None:
    made = make("ddtree", 64)
    show(drawings, made)
    tree = made.round.tree
    hidden = ancestors(tree.parents)[:, 1].nonzero()[0].tolist()[1:]
    drawings.evaluate("panels.tree.fold(1, true)")
    assert drawings.evaluate("[...panels.tree.layout.rows].filter((row) => row < 0).length") == len(hidden)
    assert f"+{len(hidden)}" in drawings.locator(".cp-label.is-fold").all_text_contents()
    text = json.dumps(drawings.evaluate("(node) => stage.round.text(stage.round.tokens[node])", hidden[0]))
    found = drawings.evaluate(f"panels.tree.search({text})")
    assert found["count"] >= 1 and drawings.evaluate("(node) => panels.tree.layout.rows[node] >= 0", found["node"])


def test_without_a_round_every_panel_says_what_will_be_there(drawings: Any) -> None:
    show(drawings, make("ddtree", 8))
    drawings.evaluate("() => Object.values(panels).forEach((panel) => panel.draw(null))")
    assert drawings.locator(".cp-empty:visible").count() == len(PANELS)
    assert drawings.locator("[role=treeitem]").count() == 0
    assert drawings.evaluate("(names) => names.map((name) => panels[name].svg())", list(PANELS)) == [None] * len(PANELS)


def test_a_still_keeps_the_cards_of_the_other_drafter(drawings: Any) -> None:
    show(drawings, make("merged", 64))
    drawings.add_style_tag(content=":root { --drafter2: rgb(200, 80, 0); }")  # a blue of 0 is no transparency
    drawings.evaluate("panels.verifier.draw(stage.round)")
    cards = drawings.locator(".cp-offer").count()
    twins = drawings.locator(".cp-offer.is-twin").count()
    drawn = drawings.evaluate("panels.verifier.svg()")
    assert twins and drawn.count('stroke-dasharray="3 2"') == twins
    assert drawn.count("<rect") > cards


def test_the_cache_shows_what_is_kept_of_a_thousand_rows(drawings: Any) -> None:
    made = make("ddtree", 1000)
    show(drawings, made)
    wide = drawings.evaluate("stage.round.keep.map((node) => panels.cache.edges[node + 1] - panels.cache.edges[node])")
    assert min(wide) >= 5 and len(wide) == len(made.round.acceptance.keep)
    ends = drawings.evaluate("[panels.cache.x + panels.cache.edges[stage.round.n], panels.cache.width]")
    assert ends[0] <= ends[1]


def test_confidence_is_drawn_against_one(drawings: Any) -> None:
    show(drawings, make("merged", 64))
    bars = drawings.evaluate("""() => {
        stage.round.scores = [0.14, 0.12];
        const drawn = new DOMParser().parseFromString(panels.marginals.svg(), "image/svg+xml");
        return Array.from(drawn.querySelectorAll("rect[y='8']"), (bar) => Number(bar.getAttribute("width")));
    }""")
    assert bars[1] / bars[0] == pytest.approx(0.14, abs=0.01) and bars[3] / bars[2] == pytest.approx(0.12, abs=0.01)
