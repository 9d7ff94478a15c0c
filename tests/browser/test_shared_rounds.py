"""Two people on the demo rig at once: their runs share rounds, each sees the other's shapes and none of their text."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from engine.trace import committed_ids, shared_rounds
from tests.browser.conftest import PORT, served, visit
from tests.browser.doing import RUN, STAGE, STATE, ask, choose, exported
from tests.browser.test_axe import AXE, COMPLAINTS

pytestmark = pytest.mark.long

MINE = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"
THEIRS = "Write a Python function that doubles every number of a list."
SENT = f"JSON.stringify({STAGE}.rounds.map((made) => made.shared))"
STOP = "document.querySelector('#canopy-stop').click()"


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    with served("app.py", "--port", PORT, "--rig", "demo", "--dtype", "float32", CUDA_VISIBLE_DEVICES="") as url:
        yield url


def begin(page: Any, prompt: str, method: str) -> None:
    ask(page, prompt)
    choose(page, "canopy-method", method)
    choose(page, "canopy-pace", "in full")
    page.click("#canopy-run")


def ended(page: Any, before: str) -> None:
    page.wait_for_function(f"{RUN} !== '{before}' && ['done', 'error'].includes({STATE})")


def alone(page: Any, prompt: str, method: str) -> list[int]:
    """The text of a run that nobody shares; no panel of a batch."""
    before = page.evaluate(RUN)
    begin(page, prompt, method)
    ended(page, before)
    assert page.locator("[data-panel=batch]").is_hidden()
    return committed_ids([entry.round for entry in exported(page).entries])


def test_two_people_share_rounds(browser: Browser, demo: str) -> None:
    with visit(browser, demo) as one, visit(browser, demo) as other:
        first, second = one.open(f"{demo}#mode=workbench"), other.open(f"{demo}#mode=workbench")
        for page in (first, second):
            page.wait_for_function("Canopy.parts.rigs.state && !Canopy.parts.rigs.state.coming", timeout=300_000)
        wanted = [alone(first, MINE, "ddtree"), alone(second, THEIRS, "merged")]
        names = [page.evaluate(RUN) for page in (first, second)]
        for _ in range(12):  # a run of the demo rig takes a moment: they have to meet
            for page in (first, second):
                page.evaluate("document.querySelector('#canopy-run').click()")
            for place, page in enumerate((first, second)):
                ended(page, names[place])
                names[place] = page.evaluate(RUN)
            if min(shared_rounds(exported(page)) for page in (first, second)):
                break
        traces = [exported(first), exported(second)]
        assert min(map(shared_rounds, traces)) > 0, "they met"
        assert [committed_ids([entry.round for entry in trace.entries]) for trace in traces] == wanted
        for page in (first, second):
            panel(page)


def panel(page: Any) -> None:
    """The panel of the batch is there, has both runs, and nothing of the other's but shapes."""
    last = page.evaluate(f"{STAGE}.rounds.findLastIndex((made) => made.shared && made.shared.blocks.length === 2)")
    assert last >= 0
    page.evaluate(f"Canopy.parts.player.go({last}, {{}})")
    page.wait_for_function(f"!Canopy.parts.frames.planned && {STAGE}.current === {last}")
    batch = page.locator("[data-panel=batch]")
    assert batch.is_visible()
    rows = batch.locator("tbody tr").all_inner_texts()
    assert len(rows) == 2 and sum(row.startswith("yours") for row in rows) == 1
    assert "rows of 2 runs" in batch.locator("svg[role=img]").get_attribute("aria-label")
    sent = page.evaluate(f"{STAGE}.rounds.flatMap((made) => made.shared ? made.shared.blocks.map(Object.keys) : [])")
    assert {tuple(sorted(block)) for block in sent} == {("keep", "parents", "poolsRows", "seat")}
    assert "not compared" in page.locator(".cs-metric-gain").inner_text()
    assert "shared" in page.locator(".cs-metric-speed").inner_text()
    page.evaluate(AXE)
    assert page.evaluate(COMPLAINTS) == []
