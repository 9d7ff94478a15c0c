"""The page of the first seconds: it plays, takes a question, and what was asked there is run on the page itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import PORT, served, visit
from tests.browser.doing import STAGE, STATE

FIELD = ".cs-opening textarea"
THERE = ("window.Canopy && !Canopy.opening && Canopy.parts && Canopy.parts.ready"
         " && document.querySelector('#canopy-prompt textarea')")


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """The file for which the page waits to be built."""
    return tmp_path / "go"


@pytest.fixture
def opening(go: Path) -> Iterator[str]:
    """The address of a page that is not built yet."""
    with served("-m", "tests.browser.serve", PORT, "0", "--until", str(go), answers="") as url:
        yield url
        go.touch()


def test_what_is_asked_in_the_first_second_is_run_by_the_page_itself(browser: Any, opening: str, go: Path) -> None:
    with visit(browser, opening) as made:
        page = made.open(opening)
        assert page.inner_text(".cs-opening-rig") == "Rig: scripted, loading …"
        assert page.evaluate(f"{STAGE}.rounds.length") > 2 and page.inner_text(".cs-badge").startswith("recorded")
        page.fill(FIELD, "Who asks so early?")
        page.press(FIELD, "Enter")
        assert "begins by itself" in page.inner_text(".cs-opening [role=status]")
        go.touch()
        page.wait_for_function(THERE)
        page.wait_for_function(f"{STATE} === 'done' && {STAGE}.header.prompt === 'Who asks so early?'")
        assert page.input_value("#canopy-prompt textarea") == "Who asks so early?"


def test_what_was_stopped_is_not_run_and_what_was_typed_stays(browser: Any, opening: str, go: Path) -> None:
    with visit(browser, opening) as made:
        page = made.open(f"{opening}#mode=workbench&budget=8")
        page.fill(FIELD, "Never mind")
        page.click(".cs-opening-run")
        page.click(".cs-opening button:text('Stop')")
        assert page.inner_text(".cs-opening [role=status]") == ""
        go.touch()
        page.wait_for_function(THERE)
        page.wait_for_function("document.querySelector('#canopy-prompt textarea').value === 'Never mind'")
        assert page.evaluate(f"{STAGE}.recorded") and page.evaluate(f"{STAGE}.mode") == "workbench"
        assert page.input_value("#canopy-budget input") == "8", "the address of the beginning is the address"


def test_the_film_starts_and_ends_without_an_answer_of_the_server(browser: Any, opening: str, go: Path) -> None:
    with visit(browser, opening) as made:
        made.page.emulate_media(reduced_motion="no-preference")
        page = made.open(opening)
        assert page.evaluate(f"{STAGE}.scene") == "plain" and page.locator(".cs-duel.is-alone").is_visible()
        page.wait_for_function("parseInt(document.querySelector('.cs-lane-flag').textContent.slice(5)) > 1")
        go.touch()
        page.wait_for_function("fetch('gradio_api/app_id').then((answer) => answer.ok)")
        page.evaluate("Canopy.parts.film.hurry = 0.02")
        page.wait_for_function(f"{THERE} && {STAGE}.scene === 'card'")  # seen to its end here, and goes on there
        page.get_by_role("button", name="Your turn").click()
