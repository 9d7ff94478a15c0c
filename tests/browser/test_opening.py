"""The page of the first seconds: it plays, takes a question, and what was asked there is run on the page itself."""

from pathlib import Path
from typing import Any

from tests.browser.conftest import PORT, served, visit
from tests.browser.doing import STAGE, STATE

FIELD = ".cs-opening textarea"
THERE = ("window.Canopy && !document.querySelector('.cs-opening') && Canopy.parts && Canopy.parts.ready"
         " && document.querySelector('#canopy-prompt textarea')")


def test_three_people_open_it_before_the_page_is_built(browser: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"  # the file for which the page waits to be built
    with (served("-m", "tests.browser.serve", PORT, "0", "--until", str(go), answers="") as url,
          visit(browser, url) as asking, visit(browser, url) as stopping, visit(browser, url) as watching):
        asker, stopper = asking.open(url), stopping.open(f"{url}#mode=workbench&budget=8")
        watching.page.emulate_media(reduced_motion="no-preference")
        watcher = watching.open(url)
        assert asker.evaluate(f"{STAGE}.rounds.length") > 2
        assert asker.inner_text(".cs-badge").startswith("recorded")
        asker.fill(FIELD, "Who asks so early?")
        asker.press(FIELD, "Enter")
        assert "begins by itself" in asker.inner_text(".cs-opening [role=status]")
        stopper.fill(FIELD, "Never mind")
        assert watcher.evaluate(f"{STAGE}.scene") == "plain" and watcher.locator(".cs-duel.is-alone").is_visible()
        watcher.wait_for_function("parseInt(document.querySelector('.cs-track-flag').textContent.slice(5)) > 1")
        go.touch()
        what_was_asked_is_run(asker)
        what_was_typed_stays(stopper)
        the_film_is_seen_to_its_end(watcher)


def what_was_asked_is_run(page: Any) -> None:
    page.wait_for_function(THERE)
    page.wait_for_function(f"{STATE} === 'done' && {STAGE}.header.prompt === 'Who asks so early?'")
    assert page.input_value("#canopy-prompt textarea") == "Who asks so early?"


def what_was_typed_stays(page: Any) -> None:
    page.wait_for_function(THERE)
    page.wait_for_function("document.querySelector('#canopy-prompt textarea').value === 'Never mind'")
    assert page.evaluate(f"{STAGE}.recorded") and page.evaluate(f"{STAGE}.mode") == "workbench"
    assert page.input_value("#canopy-budget input") == "8", "the address of the beginning is the address"


def the_film_is_seen_to_its_end(page: Any) -> None:
    page.wait_for_function("fetch('gradio_api/app_id').then((answer) => answer.ok)")
    page.evaluate("Canopy.parts.film.hurry = 0.02")
    page.wait_for_function(f"{THERE} && {STAGE}.scene === 'card'")  # seen here, and it goes on there
    page.get_by_role("button", name="Your turn").click()
