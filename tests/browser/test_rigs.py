"""Choosing another rig in the page, on the real app: a small one in folders, an unknown name, and who sees it."""

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from playwright.sync_api import Route

from tests.browser.actions import STAGE, STATE, finish, press_run
from tests.browser.conftest import PORT, Watched, served, visit
from tests.engine.published import write_short, write_short_dflash

pytestmark = pytest.mark.long

STATE_OF_RIG = "Canopy.parts.rigs.state"
READY = f"window.Canopy && Canopy.parts && Canopy.parts.ready && {STATE_OF_RIG} && !{STATE_OF_RIG}.first_load"
RELOADED = f"{READY} && Canopy.parts.rigs.generation === 2"  # loaded after a change of rig
BUDGET = "(budget) => document.querySelector('#canopy-budget input').value === budget"
SMOLLM2 = "SmolLM2-135M-Instruct"
FAILURE = "document.querySelector('.cs-rig-failure').textContent"


@pytest.fixture(scope="module")
def small_rig(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Provide a target and a drafter of random weights; return the name to type."""
    folder = tmp_path_factory.mktemp("small")
    target, drafter = write_short(folder / "small", "Qwen3-8B"), write_short_dflash(folder / "head", "Qwen3-8B")
    return f"{target}::{drafter}"


@pytest.fixture
def app_address(tmp_path: Path) -> Iterator[str]:
    """Provide the app on the demo rig, started again for every try."""
    with served("app.py", "--rig", "demo", "--port", PORT, "--results", str(tmp_path / "results.sqlite")) as url:
        yield url


def load(page: Any, name: str) -> None:
    """Type the name of a rig and press Enter, by keyboard alone."""
    page.focus(".cs-rig")
    page.keyboard.press("Enter")
    page.fill(".cs-rig-typed", name)
    page.press(".cs-rig-typed", "Enter")


def run(page: Any) -> list[str]:
    """Press Run and wait for the end; return the run's state and the rig in its header."""
    press_run(page)
    finish(page)
    assert page.evaluate(f"{STAGE}.rounds.length") > 1
    return list(page.evaluate(f"[{STATE}, {STAGE}.header.rig]"))


def test_another_rig_answers_and_an_unknown_name_changes_nothing(
        browser: Any, app_address: str, small_rig: str) -> None:
    with visit(browser, app_address) as watched, visit(browser, app_address) as other:
        page = open_page(watched, app_address)
        elsewhere = open_page(other, app_address)
        assert page.inner_text(".cs-rig") == "Rig: demo rig"
        page.fill("#canopy-prompt textarea", "What is a draft tree?")
        start = page.input_value("#canopy-budget input")
        page.fill("#canopy-budget input", "8")
        page.wait_for_function("location.hash.includes('trace=') && location.hash.includes('budget=8')")
        load(page, small_rig)
        page.wait_for_function(f"{RELOADED} && {STATE_OF_RIG}.rig === 'small'")
        page.wait_for_function("document.querySelector('#canopy-prompt textarea').value === 'What is a draft tree?'")
        page.wait_for_function("document.querySelector('#canopy-method input').value")
        page.wait_for_function(BUDGET, arg=start)  # the new rig's default
        assert run(page) == ["done", "small"]
        page.evaluate(f"{STAGE}.setMode('lab')")
        page.wait_for_function("Canopy.laboratory && Canopy.laboratory.setup.rig === 'small'")
        page.evaluate(f"{STAGE}.setMode('workbench')")

        load(page, "nonsense")
        page.wait_for_function(FAILURE)
        assert "'nonsense'; there are demo," in page.inner_text(".cs-rig-failure")
        page.keyboard.press("Escape")
        assert page.is_hidden(".cs-rigs") and run(page) == ["done", "small"]

        elsewhere.evaluate("Canopy.parts.rigs.refresh()")
        elsewhere.wait_for_selector(".is-news:visible")
        assert "small answers now" in elsewhere.inner_text(".is-news p")
        elsewhere.click(".is-news button")
        elsewhere.wait_for_function(RELOADED)
        elsewhere.wait_for_function("document.querySelector('.cs-rig').textContent === 'Rig: small'")
        assert elsewhere.is_hidden(".is-news")


def test_a_run_waits_for_the_first_rig_and_the_page_adopts_its_options(browser: Any, app_address: str) -> None:
    with visit(browser, app_address) as watched:
        page = watched.open(f"{app_address}#mode=workbench")
        assert page.evaluate("Canopy.parts.stage.rounds.length") > 0, "a recording is there before the rig"
        assert run(page) == ["done", "demo rig"]
        page.wait_for_function(READY)
        page.wait_for_function("document.querySelector('.cs-rig').textContent === 'Rig: demo rig'")
        page.locator("#canopy-more .label-wrap").click()
        page.wait_for_function("document.querySelector('#canopy-drafters input')?.value.includes('own: all')")
        page.evaluate(f"{STAGE}.setMode('lab')")
        page.wait_for_function("Canopy.laboratory && Canopy.laboratory.setup.rig === 'demo rig'")
        assert page.locator(".lab-waiting").count() == 0


def test_a_page_opened_after_a_change_of_rig_shows_the_new_rigs_recording(browser: Any, app_address: str) -> None:
    def changed(route: Route) -> None:
        answer = route.fetch()
        state = {"rig": SMOLLM2} if '"rig_state"' in (route.request.post_data or "") else {}
        route.fulfill(response=answer, body=json.dumps({**answer.json(), **state}))

    with visit(browser, app_address) as watched:
        watched.page.route("**/component_server/**", changed)
        page = watched.open(app_address)
        page.wait_for_function(f"{STAGE}.header.rig === '{SMOLLM2}'")
        page.wait_for_function(f"document.querySelector('#canopy-prompt textarea').value === {STAGE}.header.prompt")
        page.evaluate("Canopy.parts.recordings.open('plain', { still: true })")
        page.wait_for_function(f"{STAGE}.header.rig === 'demo rig'")
        page.get_by_role("button", name="A tour in nine steps").click()
        page.wait_for_function(f"{STAGE}.header.rig === '{SMOLLM2}' && Canopy.parts.tour.isOpen")
        watched.page.unroute_all(behavior="wait")


def open_page(watched: Watched, address: str) -> Any:
    page = watched.open(f"{address}#mode=workbench")
    page.wait_for_function(READY)
    return page


def test_without_a_choice_of_rigs_the_sheet_shows_the_current_one(watched: Watched, address: str) -> None:
    page = open_page(watched, address)
    page.click(".cs-rig")
    assert page.inner_text(".cs-rig-now").startswith("scripted rig") and page.is_hidden(".cs-rig-form")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.classList.contains('cs-rig')"), "the focus comes back"


def test_an_opened_recordings_method_is_not_replaced_by_the_rigs_default(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(f"{address}#trace=routed&mode=workbench")
    page.wait_for_function(READY)
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'routed'")
    page.wait_for_timeout(3000)  # by then every response that could overwrite it has arrived
    assert page.input_value("#canopy-method input") == "routed"


@pytest.mark.parametrize("trace", ["merging", "welcome"])  # the page opens with the second
def test_a_link_to_a_recording_sets_its_budget_even_if_the_rigs_default_arrives_late(
        browser: Any, app_address: str, trace: str) -> None:
    late = list[Any]()

    def hold(route: Any) -> None:
        """Delay the request for the rig's defaults, the only one about three components."""
        if len(route.request.post_data_json["data"]) == 3:
            late.append(route)
        else:
            route.continue_()

    with visit(browser, app_address) as before, visit(browser, app_address) as watched:
        open_page(before, app_address)  # the rig is loaded
        page = watched.page
        page.route("**/gradio_api/run/predict*", hold)
        page.goto(f"{app_address}#mode=workbench&trace={trace}")
        page.wait_for_function(READY)
        setting = page.evaluate(f"[{STAGE}.header.method, String({STAGE}.header.options.budget)]")
        page.wait_for_function(BUDGET, arg=setting[1])
        end = monotonic() + 60
        while not late and monotonic() < end:
            page.wait_for_timeout(50)
        answer = late[0].fetch()
        filled = answer.json()
        filled["data"][-1]["interactive"] = False  # shows when it was applied
        late[0].fulfill(json=filled)
        page.wait_for_function("document.querySelector('#canopy-split input').disabled")
        assert [page.input_value(f"#canopy-{name} input") for name in ("method", "budget")] == setting
