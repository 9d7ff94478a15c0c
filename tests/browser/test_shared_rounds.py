"""Two people on the demo rig at once: their runs share rounds; each sees the other's shapes and none of the text."""

from typing import Any

import pytest
from playwright.sync_api import Browser

from engine.trace import committed_ids, shared_rounds
from tests.browser.actions import RUN, STAGE, STATE, ask, choose, current_trace, show_round
from tests.browser.conftest import PORT, served, visit
from tests.browser.test_axe import AXE, COMPLAINTS

pytestmark = pytest.mark.long

MINE = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"
THEIRS = "Write a Python function that doubles every number of a list."


def wait_for_end(page: Any, before: str) -> None:
    page.wait_for_function(f"{RUN} !== '{before}' && ['done', 'error'].includes({STATE})")


def run_alone(page: Any, prompt: str, method: str) -> list[int]:
    """Run a prompt that shares no rounds, check that there is no batch panel, and return the text's token ids."""
    before = page.evaluate(RUN)
    ask(page, prompt)
    choose(page, "canopy-method", method)
    choose(page, "canopy-pace", "in full")
    page.click("#canopy-run")
    wait_for_end(page, before)
    assert page.locator("[data-panel=batch]").is_hidden()
    return committed_ids(current_trace(page).rounds)


def test_two_people_share_rounds_without_sharing_text(browser: Browser) -> None:
    words = ("app.py", "--port", PORT, "--rig", "demo", "--dtype", "float32")
    with served(*words, CUDA_VISIBLE_DEVICES="") as demo, visit(browser, demo) as one, visit(browser, demo) as other:
        first, second = one.open(f"{demo}#mode=workbench"), other.open(f"{demo}#mode=workbench")
        for page in (first, second):
            page.wait_for_function("Canopy.parts.rigs.state && !Canopy.parts.rigs.state.first_load", timeout=300_000)
        wanted = [run_alone(first, MINE, "ddtree"), run_alone(second, THEIRS, "merged")]
        names = [page.evaluate(RUN) for page in (first, second)]
        for _ in range(12):  # the demo rig's runs are short and may not overlap
            for page in (first, second):
                page.evaluate("document.querySelector('#canopy-run').click()")
            for place, page in enumerate((first, second)):
                wait_for_end(page, names[place])
                names[place] = page.evaluate(RUN)
            if min(shared_rounds(current_trace(page)) for page in (first, second)):
                break
        traces = [current_trace(first), current_trace(second)]
        assert min(map(shared_rounds, traces)) > 0, "the two runs shared rounds"
        assert [committed_ids(trace.rounds) for trace in traces] == wanted
        for page in (first, second):
            check_panel(page)


def check_panel(page: Any) -> None:
    """Assert that the batch panel has both runs, and only shapes of the other one."""
    last = page.evaluate(f"{STAGE}.rounds.findLastIndex((made) => made.shared && made.shared.blocks.length === 2)")
    assert last >= 0
    show_round(page, last)
    batch = page.locator("[data-panel=batch]")
    assert batch.is_visible()
    rows = batch.locator("tbody tr").all_inner_texts()
    assert len(rows) == 2 and sum(row.startswith("yours") for row in rows) == 1
    sent = page.evaluate(f"{STAGE}.rounds.flatMap((made) => made.shared ? made.shared.blocks.map(Object.keys) : [])")
    assert {tuple(sorted(block)) for block in sent} == {("keep", "parents", "poolsRows", "seat")}
    page.evaluate(AXE)
    assert page.evaluate(COMPLAINTS) == []
