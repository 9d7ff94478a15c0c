"""The page follows a loop that runs elsewhere: as it grows, while a person scrubs, and on return from another run."""

from pathlib import Path
from typing import Any

import pytest

from engine.recorder import Recorder
from tests.browser.actions import RUN, STAGE, STATE
from tests.browser.conftest import PORT, served, visit

pytestmark = pytest.mark.long

ROUND = {"tokens": [7, 3, 4], "parents": [0, 0, 1], "keep": [0, 1], "bonus": 7}
TEXT = {7: " the", 3: " <b>tree</b>", 4: " ${7*6}"}


def wait_for_rounds(page: Any, run: str, count: int) -> None:
    page.wait_for_function(
        f"window.Canopy && Canopy.parts && {RUN} === '{run}' && {STAGE}.rounds.length >= {count}")


def test_a_running_loop_is_followed(browser: Any, tmp_path: Path) -> None:
    with Recorder(tmp_path / "old.jsonl.gz", method="theirs", engine="old loop", token_text=TEXT) as recorder:
        recorder.round(**ROUND)
    with served("-m", "tests.browser.serve", PORT, "0.05", "--follow", str(tmp_path)) as url, visit(
            browser, url) as watched:
        page = watched.open(url)
        wait_for_rounds(page, "old.jsonl.gz", 1)
        with Recorder(tmp_path / "run.jsonl.gz", method="their_tree", engine="my loop", token_text=TEXT) as recorder:
            for _ in range(6):
                recorder.round(**ROUND)
            wait_for_rounds(page, "run.jsonl.gz", 6)
            assert page.evaluate(STATE) == "running"
            page.evaluate(f"{STAGE}.setMode('workbench'); {STAGE}.go(2)")
            for _ in range(6):
                recorder.round(**ROUND)
            wait_for_rounds(page, "run.jsonl.gz", 12)
            assert page.evaluate(f"{STAGE}.current") == 2, "scrubbing is not interrupted"
            assert page.locator(".cs-frame-text").get_by_text("<b>tree</b>").count() >= 1
            page.evaluate("Canopy.parts.recordings.open('old.jsonl.gz', {push: true})")
            wait_for_rounds(page, "old.jsonl.gz", 1)
            recorder.round(**ROUND)
            page.get_by_role("button", name="Follow it").click()
            wait_for_rounds(page, "run.jsonl.gz", 13)
        page.wait_for_function(f"{STATE} === 'done'")
