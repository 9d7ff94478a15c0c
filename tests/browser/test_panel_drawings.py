"""What the panels draw of a round: tokens as typed, the accepted path on a line of its own, the mask's cells, the
cache's numbers, stills that stand alone, one selection. What they read from it is tested in tests/node."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from engine.trace import Block, SharedPass
from explorer.view import shared_pass_view
from tests.browser.drawn_rounds import DEPTH, ODD, PANELS, circles, drawing_page, make, show
from tests.engine.material import ancestors

SIGNS = ("${7*6}", "</script><script>window.ran=1</script>", "⏎", "⇥", "␣שלום", "👩⟨200d⟩👩⟨200d⟩👧",
         "<b>bold</b>", "⟨e2⟩⟨82⟩")  # how the odd tokens are shown


@pytest.fixture(scope="module")
def drawings(browser: Any) -> Iterator[Any]:
    """A page with the panels alone."""
    with drawing_page(browser) as page:
        yield page


@pytest.mark.parametrize(("method", "budget"), [("ddtree", 1024), ("merged", 96), ("routed", 64)])
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
    made.value["rounds"][0] |= shared_pass_view(SharedPass(2, 0, (shape, replace(shape, seat=1))))
    show(drawings, made)
    for name in PANELS:
        drawn = drawings.evaluate("(name) => panels[name].svg()", name)
        root = ElementTree.fromstring(drawn)
        assert root.tag.endswith("svg") and len(list(root.iter())) > 10 and len(drawn) > 2000, name
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
    assert drawings.locator(".cp-mask-lit").get_attribute("d")
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


def test_confidence_is_drawn_against_one(drawings: Any) -> None:
    show(drawings, make("merged", 64))
    bars = drawings.evaluate("""() => {
        stage.round.scores = [0.14, 0.12];
        panels.marginals.draw(stage.round);
        return Array.from(panels.marginals.svg().matchAll(/M[^,]+,8h([^v]+)v8h/g), ([, width]) => Number(width));
    }""")
    first, *grounds, second = bars  # what is drawn in one colour is one path
    assert [first / grounds[0], second / grounds[1]] == pytest.approx([0.14, 0.12], abs=0.01)


def test_transitions_are_ink_and_a_guess_says_what_it_changes(drawings: Any) -> None:
    made = make("ddtree", 24, first_order=True)
    show(drawings, made)
    tokens, places = made.round.tree.tokens, "panels.marginals.hits.filter(({ candidate }) => candidate)"
    outlined = drawings.evaluate(f"{places}.filter(({{ node }}) => node !== null).map(({{ id }}) => id)")
    assert set(outlined) == set(tokens[1:].tolist())
    ink = drawings.evaluate("panels.marginals.svg()").count("<path")
    assert len(tokens) - 1 <= ink <= 26 * DEPTH  # the tree's edges at least
    first = drawings.evaluate(f"(({{ x, y }}) => [x + 4, y + 4])({places}[0])")
    drawings.locator(".cp-marginals .cp-svg").hover(position=dict(zip("xy", first, strict=True)))
    assert drawings.locator(".cp-marginals .cp-change-mark").count() > 2
    words = drawings.locator(".cp-marginals .cp-tip").inner_text()
    assert "after it (on average):" in words
    drawings.mouse.move(1, 1)
    assert drawings.locator(".cp-change-cell").count() == 0
    drawings.locator(".cp-marginals .cp-svg").focus()
    drawings.keyboard.press("ArrowDown")
    node, token = drawings.evaluate("(({ node, id }) => [node, id])(panels.marginals.over)")
    drawings.keyboard.press("ArrowRight")
    assert drawings.evaluate("panels.marginals.over.depth") == 1
    drawings.keyboard.press("ArrowLeft")
    drawings.keyboard.press("Escape")
    assert drawings.evaluate("panels.marginals.over.depth") == 0
    assert node is None or int(tokens[node]) == token


def test_unlike_a_mask_of_ones_the_cells_are_the_ancestors(drawings: Any) -> None:
    made = make("merged", 40)
    show(drawings, made)
    expected = ancestors(made.round.tree.parents)
    for by_depth in (False, True):
        seen = drawings.evaluate("""(byDepth) => {
            const { mask } = panels;
            if (mask.byDepth !== byDepth) mask.toggle();
            const drawn = document.querySelectorAll(".cp-mask .cp-mask-cells path");
            const cells = Array.from(drawn, (path) => path.getAttribute("d")).join("").matchAll(/M([^,]+),([^h]+)h/g);
            return Array.from(cells, ([, x, y]) => [y - mask.grid.top, x - mask.grid.left]
                .map((at) => mask.order[Math.round(at / mask.grid.cell)]));
        }""", by_depth)
        assert sorted(map(tuple, seen)) == sorted(zip(*map(np.ndarray.tolist, expected.nonzero()), strict=True))
        name = drawings.locator(".cp-mask .cp-svg").get_attribute("aria-label")
        assert f"{len(seen)} cells seen" in name


@pytest.mark.parametrize(("method", "budget"), [("ddtree", 1024), ("nanogpt", 40)])
def test_cache_shows_the_keep_indices_and_the_lengths(drawings: Any, method: str, budget: int) -> None:
    made = make(method, budget)
    show(drawings, made)
    keep = made.round.acceptance.keep.tolist()
    low = drawings.evaluate("panels.cache.low.y")
    marks = drawings.locator(".cp-slot-number").evaluate_all(
        "(marks) => marks.map((mark) => [mark.textContent, Number(mark.getAttribute('y'))])")
    numbers = [text for text, y in marks if y > low and text != "row kept"]
    assert numbers == [str(node) for node in keep]
    words = drawings.locator(".cp-strip-size").all_text_contents()
    size, start = len(made.round.tree), made.round.start
    assert words[0].startswith(f"{start} + {size} = {start + size} slots")
    still = sum(node == place for place, node in enumerate(keep))
    moved = f", {len(keep) - still} moved" if still < len(keep) else ""
    assert words[1].endswith(
        f"{still} in place{moved}, {size - len(keep)} dropped: {start + len(keep)} slots")


def test_trials_are_shown_in_turn_with_their_draws(drawings: Any) -> None:
    made = make("nanogpt", 40)
    show(drawings, made)
    trials = made.round.acceptance.trials
    assert trials is not None
    titles = [title for title in drawings.locator(".cp-offer.is-tried").evaluate_all(
        "(marks) => marks.map((mark) => mark.title)")]
    assert len(titles) == len(trials.nodes)
    for turn, node in enumerate(trials.nodes.tolist()):
        passed = "accepted" if trials.draws[turn] < trials.chances[turn] else "rejected"
        assert titles[turn].startswith(f"trial {turn + 1}, row {node}: draw {trials.draws[turn]:.4f}")
        assert passed in titles[turn]
