"""The page follows a loop that is not ours: as it grows, while a person scrubs, and back from another run."""

from pathlib import Path
from typing import Any

import pytest

from engine.recorder import Recorder
from tests.browser.conftest import PORT, served, visit

pytestmark = pytest.mark.long

ROUND = {"tokens": [7, 3, 4], "parents": [0, 0, 1], "keep": [0, 1], "bonus": 7}
TEXT = {7: " the", 3: " <b>tree</b>", 4: " ${7*6}"}


def stage(page: Any, what: str) -> Any:
    return page.evaluate(f"Canopy.parts.stage.{what}")


def rounds_come(page: Any, run: str, count: int) -> None:
    page.wait_for_function(
        f"window.Canopy && Canopy.parts && Canopy.parts.stage.value.run === '{run}'"
        f" && Canopy.parts.stage.rounds.length >= {count}")


def test_a_loop_is_followed_as_it_goes_on(browser: Any, tmp_path: Path) -> None:
    with Recorder(tmp_path / "old.jsonl.gz", method="theirs", engine="old loop", token_text=TEXT) as recorder:
        recorder.round(**ROUND)
    with served("-m", "tests.browser.serve", PORT, "0.05", "--follow", str(tmp_path)) as url, visit(
            browser, url) as watched:
        see_it_go_on(watched.open(url), tmp_path)


def see_it_go_on(page: Any, folder: Path) -> None:
    """A loop writes rounds; a person scrubs, looks at another run, and comes back."""
    rounds_come(page, "old.jsonl.gz", 1)
    with Recorder(folder / "run.jsonl.gz", method="their_tree", engine="my loop 0.3", token_text=TEXT) as recorder:
        for _ in range(6):
            recorder.round(**ROUND)
        rounds_come(page, "run.jsonl.gz", 6)
        assert stage(page, "value.state") == "running"
        stage(page, "setMode('workbench')")
        stage(page, "go(2)")
        for _ in range(6):
            recorder.round(**ROUND)
        rounds_come(page, "run.jsonl.gz", 12)
        assert stage(page, "current") == 2  # a person who scrubs is not carried off
        assert page.get_by_text("Not recorded by this engine").count() == 1
        assert "their_tree" in page.locator(".cs-run-title").inner_text()
        assert page.locator(".cs-frame-text").get_by_text("<b>tree</b>").count() >= 1
        page.evaluate("Canopy.parts.recordings.open('old.jsonl.gz', {push: true})")
        rounds_come(page, "old.jsonl.gz", 1)
        recorder.round(**ROUND)
        page.get_by_role("button", name="Follow it").click()
        rounds_come(page, "run.jsonl.gz", 13)
    page.wait_for_function("Canopy.parts.stage.state === 'done'")
    page.get_by_role("button", name="Runs").click()
    assert page.locator(".cs-run-prompt").all_inner_texts()[:2] == ["run.jsonl.gz", "old.jsonl.gz"]
