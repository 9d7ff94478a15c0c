"""Rounds of a given size for the tests of the drawings, and the page in which the panels draw them alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.decoding.builders.best_first import best_first
from engine.decoding.builders.chain import chain
from engine.records import Acceptance, DraftTree, Lattice, Request, Round, Trials, Verification
from engine.trace import Entry, Header
from explorer.bundle import STAGE, script, style
from explorer.view import entry_view, header_view

ODD = ("${7*6}", "</script><script>window.ran=1</script>", "\n", "\t", " שלום", "👩‍👩‍👧", "<b>bold</b>", (0xE2, 0x82))
VOCABULARY = 160
DEPTH = 12
PANELS = ("tree", "budget", "marginals", "mask", "verifier", "cache", "batch")
SHOW = """(value) => {
    window.stage = new Canopy.Stage();
    window.panels = {};
    document.body.replaceChildren();
    for (const [name, about] of Canopy.panels) {
        const host = document.createElement("div");
        Object.assign(host.style, { width: "900px", height: "420px" });
        document.body.append(host);
        panels[name] = about.create(host, stage);
    }
    stage.on("select", (chosen) => Object.values(panels).forEach((panel) => panel.select(chosen)));
    stage.show(value);
    stage.go(0, {});
    for (const name in panels) panels[name].draw(stage.round);
    panels.verifier.finish();
}"""


@dataclass(frozen=True)
class Made:
    """A round with the stage value that shows it."""

    round: Round
    value: dict[str, Any]


def pieces() -> dict[int, Any]:
    """Text for every token id: the odd ones first."""
    words = {token: f" word{token}" for token in range(VOCABULARY)}
    return {**words, **dict(enumerate(ODD))}


def lattice(seed: int) -> Lattice:
    """Marginals whose first choice at depth d is token d: (DEPTH, 1, 64)."""
    random = np.random.default_rng(seed)
    tokens, logprobs = [], []
    for depth in range(DEPTH):
        order = np.concatenate([random.permutation(24), 24 + random.permutation(VOCABULARY - 24)])  # drafters overlap
        order = np.concatenate([[depth], order[order != depth]])
        chances = np.sort(random.dirichlet(np.full(VOCABULARY, 0.08)) + 1e-6)[::-1]
        tokens.append(order[None, :64])
        logprobs.append(np.log(chances / chances.sum())[None, :64])
    shape = np.zeros((DEPTH, 1, 64), np.int32)
    return Lattice(np.asarray(tokens, np.int32), np.asarray(logprobs, np.float32), shape)


def transitions(marginals: Lattice) -> Lattice:
    """The 16 likeliest tokens of each depth, with a row for each of those before them: (DEPTH, 16, 16). The likeliest
    may follow all of them, and each other one is likelier after one of them."""
    tokens, unary = marginals.tokens[:, 0, :16], marginals.logprobs[:, 0, :16]
    scores = unary[:, None] + np.where(np.eye(16, k=1), 3, 0).astype(np.float32)
    scores -= np.logaddexp.reduce(scores, -1, keepdims=True)
    scores[0, 1:] = -np.inf
    follow = (-scores).argsort(-1, kind="stable").astype(np.int32)
    rows = np.arange(DEPTH)[:, None, None]
    return Lattice(tokens[rows, follow], np.take_along_axis(scores, follow, -1), follow)


def merge(first: DraftTree, second: DraftTree) -> DraftTree:
    """Two disjoint trees under one root, by the index map φ (paper 000, section 4.1)."""
    shift = len(first) - 1
    parents = np.where(second.parents[1:] == 0, 0, second.parents[1:] + shift)
    drafters = np.full(len(second) - 1, 2, np.int32)
    return DraftTree(
        np.concatenate([first.tokens, second.tokens[1:]]), np.concatenate([first.parents, parents]).astype(np.int32),
        np.concatenate([first.logprobs, second.logprobs[1:]]), np.concatenate([first.drafters, drafters]))


def last_children(tree: DraftTree, steps: int) -> list[int]:
    """A path that takes each node's last child with children: never where a drawing would put it unasked."""
    path = [0]
    while len(path) <= steps:
        children = np.flatnonzero(tree.parents[1:] == path[-1]) + 1
        if not len(children):
            break
        path.append(int(max(children, key=lambda child: (int((tree.parents[1:] == child).any()), child))))
    return path


def verified(tree: DraftTree, keep: list[int], bonus: int) -> Verification:
    """A verification under which exactly ``keep`` is accepted and ``bonus`` follows."""
    size = len(tree)
    random = np.random.default_rng(size)
    choice = np.full(size, VOCABULARY - 1, np.int32)
    choice[keep] = [*tree.tokens[keep[1:]], bonus]
    logprobs = np.log(random.uniform(0.3, 0.99, size)).astype(np.float32)
    return Verification(choice, logprobs, -logprobs, -logprobs, logprobs[tree.parents], logprobs[tree.parents])


def tried(tree: DraftTree, keep: list[int]) -> Trials:
    """Trials that reject every elder sibling of a kept node and accept the node."""
    nodes, draws = [], []
    for node in keep[1:]:
        siblings = [other for other in range(1, node + 1) if tree.parents[other] == tree.parents[node]]
        nodes += siblings
        draws += [0.75] * (len(siblings) - 1) + [0.25]
    return Trials(np.asarray(nodes, np.int32), np.full(len(nodes), 0.5, np.float32), np.asarray(draws, np.float32))


def make(method: str, budget: int, steps: int = 4, first_order: bool = False) -> Made:
    """A round of ``method`` with ``budget`` drafted nodes, ``steps`` of them accepted if the tree is so deep."""
    drafts = tuple(lattice(seed) for seed in range(2 if method in {"merged", "routed"} else 1))
    drafts = tuple(map(transitions, drafts)) if first_order else drafts
    build = chain if method == "dflash" else best_first
    trees = tuple(build(draft, 3, budget // 2 if method == "merged" else budget) for draft in drafts)
    tree = merge(*trees) if method == "merged" else trees[0]
    keep = last_children(tree, steps)
    trials = tried(tree, keep) if method == "nanogpt" else None
    made = Round(
        index=0, start=37, drafts=drafts, candidates=trees, tree=tree,
        verification=verified(tree, keep, 0), acceptance=Acceptance(np.asarray(keep, np.int32), 0, trials),
        seconds={"draft": 0.001, "verify": 0.004})
    header = Header(
        Request((1, 2, 3), method=method,
                budget=budget), "prompt", "rig", ("first", "second")[:len(drafts)], "hardware", "float32",
        1024, pieces(), {})
    value = {"run": method, "state": "done", "message": "", "header": header_view(header),
             "rounds": [entry_view(Entry(made, {}, 0.1))], "end": None}
    return Made(made, value)


@contextmanager
def drawing_page(browser: Any) -> Iterator[Any]:
    """A page with the panels and nothing around them. An error in it fails the tests that drew there."""
    page, errors = browser.new_page(viewport={"width": 960, "height": 800}, reduced_motion="reduce"), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    text = f"<!doctype html><style>{style('page.css')}</style><body></body>{script(STAGE)}"
    page.route("http://panels.test/", lambda route: route.fulfill(body=text, content_type="text/html; charset=utf-8"))
    page.goto("http://panels.test/")
    yield page
    page.close()
    assert errors == []


def show(page: Any, made: Made) -> None:
    """Draw the round in all five panels, and wait for what follows once a drawing rests."""
    page.evaluate(SHOW, made.value)
    page.wait_for_function("document.querySelectorAll('[role=treeitem]').length > 0")


def circles(page: Any) -> list[dict[str, Any]]:
    """The tree's nodes as drawn: node, x, y, name, level."""
    found: list[dict[str, Any]] = page.locator("[role=treeitem]").evaluate_all("""(marks) => marks.map((mark) => ({
        node: Number(mark.dataset.node), x: Number(mark.getAttribute("cx")), y: Number(mark.getAttribute("cy")),
        name: mark.getAttribute("aria-label"), level: Number(mark.getAttribute("aria-level")) }))""")
    return found
