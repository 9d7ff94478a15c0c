"""Waiting, stopping, failing: what the page shows before a run's first round, after a run was cut off, and when the
server is gone."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.actions import RUN, STAGE, STATE, ask, fill_more, finish, press_run, show_round
from tests.browser.conftest import PATIENCE_MS, READY, Watched, new_context
from tests.browser.lab_app import App
from tests.explorer.scripted import ENDLESS

MINE = "How many of mine are there?"
CUT = ".cs-frame-text .cs-cut"
OUTPUT = ".cs-frame-text .cs-output"
COMING = """([prompt, state]) => {
    const { stage } = Canopy.parts;
    stage.showRequested(prompt, []);
    if (state) stage.read([{ run: "mine", message: state === "queued" ? "Yours starts next." : "", state }]);
}"""


def begin(page: Any, prompt: str) -> None:
    """Run a prompt, and wait for its first round; the story has no choice of methods."""
    ask(page, prompt)
    press_run(page)


@pytest.mark.parametrize(("state", "badge"), [("", "starting"), ("running", "starting"), ("queued", "queued")])
def test_a_run_before_its_first_round_shows_its_prompt_and_state(
        onlooker: Watched, state: str, badge: str) -> None:
    page = onlooker.show("#trace=welcome&mode=story")
    show_round(page, page.evaluate(f"{STAGE}.rounds.length - 1"))
    look = "['.cs-frame-text .cs-text', '.cs-headline'].map((name) => document.querySelector(name).innerText)"
    before, former = page.evaluate(look), page.evaluate(f"{STAGE}.header.prompt")
    page.evaluate("document.body.classList.remove('cs-ready')")  # the state before anything was shown
    page.evaluate(COMING, [MINE, state])
    assert page.evaluate("document.body.classList.contains('cs-ready')"), "and is not covered"
    text, _ = page.evaluate(look)
    assert MINE in text and former not in text and badge in page.locator(".cs-badge").inner_text()
    assert ("Yours starts next." in text) == (state == "queued")
    page.evaluate(f"{STAGE}.halt()")
    assert page.evaluate(look) == before


def test_a_rigs_note_on_its_runs_is_shown_with_the_first_run(onlooker: Watched) -> None:
    page = onlooker.show("#trace=merged&mode=workbench")
    said = """(note) => {
        const { stage, notices } = Canopy.parts;
        stage.run.header = { ...stage.header, recorded: "", note };
        stage.emit("lines", {});
        return notices.note.message;
    }"""
    page.evaluate("Canopy.parts.notices.hiddenNotes.clear()")  # a retry may have hidden the note
    assert page.evaluate(said, "Weights are rounded.") == "Weights are rounded."
    page.evaluate(COMING, [MINE, ""])
    assert page.evaluate(said, "Weights are rounded.") == ""
    assert page.evaluate(said, "Begun late.") == "Begun late."
    page.evaluate(f"{STAGE}.halt()")


def test_settings_that_run_would_use_are_shown_if_they_differ(watched: Watched, address: str) -> None:
    page = watched.open(address)
    said = page.locator(".cs-next")
    page.wait_for_function(f"{STAGE}.settings.method && document.querySelector('.cs-next')")
    assert said.is_hidden(), "the bar has the setting of the run that is shown"
    assert "joint, 64 nodes" in page.locator(".cs-run-title").inner_text()
    page.keyboard.press("End")
    for setting in (["joint", 8], ["ddtree", 64], ["autoregressive", 64]):
        page.evaluate("([method, budget]) => Canopy.controls.onSettingsChanged({ method, budget })", setting)
        words = said.inner_text()
        assert setting[0] in words and ("8 nodes" in words) is (setting[1] == 8) and "fastest" not in words
    moved = page.evaluate("""() => {
        const watch = new MutationObserver(() => undefined);
        watch.observe(document.querySelector("#canopy-ask"), { childList: true });
        Canopy.parts.rigs.state.gains = { 8: "slower here" };
        Canopy.controls.onSettingsChanged({ method: "ddtree", budget: 8 });
        return watch.takeRecords().length;
    }""")
    assert "slower here" in said.inner_text() and moved == 0, "a repeated status is announced again"
    page.evaluate("Canopy.parts.film.go('guess')")
    assert said.is_hidden(), "the film is shown"
    page.evaluate("Canopy.parts.film.go('card')")
    assert all(nodes in said.inner_text() for nodes in ("joint, 64 nodes", "ddtree, 8 nodes")), "shown and run"
    page.evaluate("Canopy.parts.stage.setMode('workbench')")
    assert "joint, 64 nodes" in said.inner_text(), "its controls have the next run's setting"
    page.evaluate(COMING, [MINE, ""])
    assert said.is_hidden(), "it runs"


def test_after_a_change_of_rig_the_page_opens_with_its_recording(watched: Watched, address: str) -> None:
    page = watched.open(address)
    begin(page, MINE)
    finish(page)
    page.evaluate("""() => {
        const { rigs, recordings } = Canopy.parts;
        rigs.state.rig = recordings.listed.find(({ name }) => name === "merged").rig = "another";
        setTimeout(() => Canopy.controls.reload());
    }""")
    page.wait_for_function(f"{READY} && {RUN} === 'merged'")
    page.locator(".is-news").get_by_role("button").click()
    assert page.locator(".cs-runs .cs-run-open", has_text=MINE).is_visible(), "the run that was shown"


def test_a_text_that_max_tokens_cut_off_says_so(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    fill_more(page, "canopy-max-tokens", "20")
    begin(page, MINE)
    page.locator("#canopy-max-tokens").wait_for(state="hidden")  # More lies over the panels, so Run closes it
    finish(page)
    page.wait_for_function(f"""() => {{  // a run that has just ended may still move to its best round
        Canopy.parts.player.go({STAGE}.rounds.length - 1, {{}});
        return document.querySelector("{CUT}")?.textContent.includes("at 20 tokens");
    }}""", polling=500)


def test_the_tour_works_on_the_welcome_recording(watched: Watched, address: str) -> None:
    page = watched.open(address)
    begin(page, ENDLESS)
    page.get_by_role("button", name="A tour in").click()
    page.wait_for_function(f"{RUN} === 'welcome' && {STAGE}.current === 0 && !{STAGE}.busy")
    page.locator(".cs-tour").wait_for(state="visible")
    begin(page, MINE)  # an exercise asks for it
    page.get_by_role("button", name="Next step").click()
    page.wait_for_function(f"{RUN} === 'welcome'")


@pytest.fixture
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Provide a server to kill; a round takes 0.2 s."""
    app = App(tmp_path_factory.mktemp("killed") / "results.sqlite", 0.2)
    yield app
    app.process.kill()
    app.process.wait(20)


@pytest.fixture
def unwatched(browser: Browser) -> Iterator[Page]:
    """Provide a page that may log failed requests."""
    context = new_context(browser)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def test_after_a_server_failure_the_text_and_the_typed_prompt_stay(unwatched: Page, killed: App) -> None:
    page = Watched(unwatched).open(killed.url)
    begin(page, ENDLESS)
    page.wait_for_function(f"{STAGE}.rounds.length > 4")
    killed.kill()
    notice = page.locator(".cs-notice.is-lost")
    notice.get_by_text("Retry").wait_for(state="visible")
    assert page.locator(".cs-notice:visible").count() == 1 and not page.evaluate(f"{STAGE}.busy")
    page.wait_for_timeout(2500)  # Gradio has noticed it too
    assert page.locator(".toast-wrap *:visible").count() == 0
    written, rounds = page.locator(OUTPUT).inner_text(), page.evaluate(f"{STAGE}.rounds.length")
    notice.get_by_text("Retry").click()
    page.locator(".cs-toast", has_text="still does not answer").wait_for(state="visible")
    ask(page, "Something else")
    killed.start()
    page.wait_for_function(f"{READY} && !document.body.classList.contains('canopy-lost')")
    page.wait_for_function("document.querySelector('#canopy-prompt textarea')?.value === 'Something else'")
    assert page.evaluate(f"{STAGE}.rounds.length") == rounds and page.locator(OUTPUT).inner_text() == written


def test_a_run_requested_while_the_server_is_away_starts_when_it_is_back(unwatched: Page, address: str) -> None:
    page = unwatched
    page.route("**/run/predict", lambda route: route.abort())  # the server fails while the bar sends its request
    Watched(page).open(address)
    page.context.set_offline(True)
    ask(page, "Mine at last")
    page.click("#canopy-run")
    page.locator(".cs-notice.is-lost", has_text="your prompt runs").wait_for(state="visible")
    page.unroute("**/run/predict")  # otherwise Gradio reloads the page repeatedly
    page.context.set_offline(False)
    page.wait_for_function(f"{READY} && {STAGE}.header?.prompt === 'Mine at last'"
                           f" && {STAGE}.rounds.length > 0")


def test_the_first_recording_never_replaces_a_run(watched: Watched, address: str) -> None:
    page = watched.page
    page.route("**/canopy/runs/welcome?*", lambda _: None)  # never answered
    page.goto(address)
    page.wait_for_function("window.Canopy?.parts?.rigs?.state && document.querySelector('#canopy-method input')?.value")
    ask(page, MINE)
    page.evaluate("""() => {
        const { run } = Canopy.controls;
        Canopy.controls.run = (...given) => { window.pressed = true; run(...given); };
        document.querySelector("#canopy-run").click();
    }""")
    page.wait_for_function("window.pressed")
    page.unroute("**/canopy/runs/welcome?*")
    page.wait_for_function(f"{STAGE}.header?.prompt === '{MINE}' && {STATE} === 'done'")
