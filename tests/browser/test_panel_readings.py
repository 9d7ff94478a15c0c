"""Mask, cache, verifier and marginals show the numbers of the round: cells, indices, lengths, steps and chances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine.decoding.tree import ancestors, depths
from engine.trace import Block, SharedPass
from explorer.view import company_view
from tests.browser.drawn_rounds import CASES, drawing_page, make, show


@pytest.fixture(scope="module")
def drawings(browser: Any) -> Iterator[Any]:
    """A page with the panels alone."""
    with drawing_page(browser) as page:
        yield page


def test_unlike_a_mask_of_ones_the_cells_are_the_ancestors(drawings: Any) -> None:
    for method, budget in (("ddtree", 40), ("merged", 40)):
        made = make(method, budget)
        show(drawings, made)
        expected = ancestors(made.round.tree.parents)
        for by_depth in (False, True):
            seen = np.asarray(drawings.evaluate("""(byDepth) => {
                const mask = panels.mask;
                if (mask.byDepth !== byDepth) mask.toggle();
                const pen = mask.sheet.getContext("2d");
                const at = (node) => (mask.place[node] + 0.5) * mask.cell;
                const ground = String(pen.getImageData(mask.left + mask.side - 3, mask.top + 2, 1, 1).data);
                const size = stage.round.n;
                const row = (query) => Array.from({ length: size }, (_, key) => String(pen.getImageData(
                    Math.floor(mask.left + at(key)), Math.floor(mask.top + at(query)), 1, 1).data) !== ground);
                return Array.from({ length: size }, (_, query) => row(query));
            }""", by_depth))
            if method == "merged":  # the names of the blocks are written over empty cells
                assert (seen | ~expected).all() and (seen != expected).mean() < 0.02
            else:
                assert (seen == expected).all()
            name = drawings.evaluate("panels.mask.sheet.getAttribute('aria-label')")
            assert f"{int(expected.sum())} cells seen" in name


def test_blocks_of_a_merged_mask_are_the_drafters(drawings: Any) -> None:
    made = make("merged", 96)
    show(drawings, made)
    blocks = drawings.evaluate("panels.mask.blocks")
    assert blocks == [{"mask": 1, "start": 1, "end": 49}, {"mask": 2, "start": 49, "end": 97}]


@pytest.mark.parametrize(("method", "budget"), CASES)
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


@pytest.mark.parametrize(("method", "budget"), CASES)
def test_verifier_takes_a_step_per_kept_row_and_ends_with_the_bonus(drawings: Any, method: str, budget: int) -> None:
    made = make(method, budget)
    show(drawings, made)
    keep, tree = made.round.acceptance.keep.tolist(), made.round.tree
    steps = drawings.evaluate("panels.verifier.steps")
    assert [step["node"] for step in steps] == keep
    assert [step["outcome"] for step in steps] == ["match"] * (len(keep) - 1) + ["bonus"]
    assert drawings.locator(".cp-step").count() == len(keep)
    for step in steps:
        offered = {child["node"]: child for child in step["offers"]}
        assert set(offered) == set((np.flatnonzero(tree.parents[1:] == step["node"]) + 1).tolist())
        for node, child in offered.items():
            assert child["q"] == pytest.approx(np.exp(tree.logprobs[node] - tree.logprobs[step["node"]]), rel=1e-4)
            assert child["p"] == pytest.approx(np.exp(made.round.verification.offered[node]), rel=1e-4)


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


@pytest.mark.parametrize(("method", "budget"), (("ddtree", 64), ("merged", 96)))
def test_marginals_mark_the_cells_that_the_tree_uses(drawings: Any, method: str, budget: int) -> None:
    made = make(method, budget)
    show(drawings, made)
    tree, depth = made.round.tree, depths(made.round.tree.parents)
    cells = drawings.evaluate("""panels.marginals.drawing.hits
        .filter((hit) => hit.id !== undefined && hit.node !== null).map((hit) => [hit.drafter, hit.depth, hit.id])""")
    for drafter, draft in enumerate(made.round.drafts):
        shown = {(level, int(token)) for level in range(draft.depth) for token in draft.tokens[level, 0, :12]}
        used = {(int(depth[node]) - 1, int(tree.tokens[node])) for node in range(1, len(tree))
                if tree.drafters[node] & 1 << drafter}
        assert {(level, token) for one, level, token in cells if one == drafter} == used & shown


@pytest.mark.parametrize(("shares", "said"), [
    ((False, True, True), "Yours and run 3 (auto) share one total of rows."),
    ((True, True, True), "All runs (auto) share one total of rows."),
    ((False, True, False), ""), ((False, False, False), "")])
def test_the_batch_says_who_shares_one_total_of_rows(drawings: Any, shares: tuple[bool, ...], said: str) -> None:
    made = make("ddtree", 12)
    keep, shape = made.round.acceptance.keep, made.round.tree.parents
    blocks = tuple(Block(seat, shape, keep, each) for seat, each in enumerate(shares))
    made.value["rounds"][0] |= company_view(SharedPass(3, 1, blocks))
    show(drawings, made)
    listed = drawings.locator(".cp-batch-list")
    assert listed.locator("tbody tr").all_inner_texts() == [
        f"{name}\t13\t{len(keep)}" for name in ("run 1", "yours", "run 3")]
    assert listed.locator("p").all_inner_texts() == [said] * bool(said)
