"""Waiting, stopping, dying: what the page says of a run before its first round, of one that did not end by itself, and
of a server that is gone."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from engine.trace import dumps
from tests.browser.conftest import PATIENCE_MS, Watched
from tests.browser.doing import RUN, STAGE, STATE, ask, finish, go, press, upload
from tests.browser.lab_app import App
from tests.explorer.scripted import ENDLESS, scripted_trace

MINE = "How many of mine are there?"
CAMERA = "Canopy.parts.frames.entries.get('tree').panel.camera"
CUT = ".cs-frame-text .cs-cut"
STOP = "document.querySelector('#canopy-stop').click()"
COMING = """(state) => {
    const { stage } = Canopy.parts;
    stage.ask("How many of mine are there?", []);
    const message = state === "queued" ? "One run is in progress; yours starts next." : "";
    if (state) stage.read([{ run: "mine", message, state }]);
}"""


def begin(page: Any, prompt: str) -> None:
    """Run a prompt, and wait for its first round; in the story no method can be chosen."""
    ask(page, prompt)
    press(page)


def shown(page: Any) -> dict[str, Any]:
    """What can be read of the stage, and whether what belongs to the run before looks so."""
    seen: dict[str, Any] = page.evaluate("""() => {
        const text = (selector) => {
            const element = document.querySelector(selector);
            return element.hidden ? "" : element.innerText;
        };
        const faint = (selector) => Number(getComputedStyle(document.querySelector(selector)).opacity) < 0.6;
        return { headline: text(".cs-headline"), more: text(".cs-more"), text: text(".cs-frame-text .cs-text"),
                 badge: text(".cs-badge"), title: text(".cs-run-title"),
                 tree: getComputedStyle(document.querySelector(".cs-frame-tree .cs-frame-title"), "::after").content,
                 faint: [".cs-metrics", ".cs-timeline", ".cs-frame-tree .cs-body"].every(faint) };
    }""")
    return seen


@pytest.mark.parametrize(("state", "badge", "headline"), [
    ("", "starting", "Waiting for the server"), ("running", "starting", "Reading the prompt"),
    ("queued", "queued", "Your run waits")])
def test_a_run_without_a_round_shows_its_prompt_and_its_state(
        watched: Watched, address: str, state: str, badge: str, headline: str) -> None:
    page = watched.open(address)
    go(page, page.evaluate(f"{STAGE}.rounds.length - 1"))
    before = shown(page)
    page.evaluate(COMING, state)
    waiting = shown(page)
    assert MINE in waiting["text"] and headline in waiting["headline"] and badge in waiting["badge"]
    assert page.evaluate(f"{STAGE}.header.prompt") not in waiting["text"]
    assert waiting["faint"] and "the run before" in waiting["tree"] and "run before" in waiting["more"]
    assert page.evaluate(f"{STAGE}.header.title") not in waiting["title"]
    assert (state == "queued") == ("yours starts next" in waiting["text"])
    page.evaluate(f"{STAGE}.setMode('workbench')")
    assert page.locator(".cs-notice.is-wait").is_visible()
    page.evaluate(f"{STAGE}.setMode('story'); {STAGE}.halt()")
    assert shown(page) == before and "before its first token" in page.locator(".cs-notice.is-news").inner_text()


def test_a_text_that_was_stopped_says_so(watched: Watched, address: str) -> None:
    page = watched.open(address)
    begin(page, ENDLESS)
    page.wait_for_function(f"{STAGE}.rounds.length > 2")
    assert page.locator(CUT).is_hidden()
    page.evaluate(STOP)
    page.wait_for_function(f"{STATE} === 'stopped' && {STAGE}.value.end")
    go(page, page.evaluate(f"{STAGE}.rounds.length - 1"))
    assert "Stopped here" in page.locator(CUT).inner_text()
    assert page.locator(".cs-headline").inner_text().startswith("Stopped after ")
    page.keyboard.press("Home")
    assert page.locator(CUT).is_hidden()


def test_a_text_that_max_tokens_cut_off_says_so(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.click("#canopy-more .label-wrap")
    for _ in range(5):  # the settings of the recording that opens may still be on their way, and take this one's place
        page.fill("#canopy-max-tokens input", "20")
        begin(page, MINE)
        finish(page)
        if page.evaluate(f"{STAGE}.header.max_tokens") == 20:
            break
    page.wait_for_function(f"""() => {{  // a run that has just ended may still move to its best round
        Canopy.parts.player.go({STAGE}.rounds.length - 1, {{}});
        return document.querySelector("{CUT}")?.textContent.includes("Cut off here: Max tokens is 20");
    }}""", polling=500)
    page.evaluate(f"{STAGE}.setMode('story')")
    page.locator(".cs-headline", has_text="Cut off after 20 tokens").wait_for()


def test_a_zoom_is_over_with_its_run(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    assert page.evaluate(f"{CAMERA}.held")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(f"{CAMERA}.held")
    upload(page, "other.jsonl", dumps(scripted_trace("merged", 64)))
    page.wait_for_function(f"{STAGE}.header.method === 'merged' && !Canopy.parts.frames.planned")
    assert not page.evaluate(f"{CAMERA}.held")
    page.wait_for_function("!location.hash.includes('zoom=')")


def test_the_tour_runs_over_the_welcome_recording(watched: Watched, address: str) -> None:
    page = watched.open(address)
    begin(page, ENDLESS)
    page.get_by_role("button", name="A tour in").click()
    page.wait_for_function(f"{RUN} === 'welcome' && {STAGE}.current === 0 && !{STAGE}.busy")
    page.locator(".cs-tour").wait_for(state="visible")
    begin(page, MINE)  # what an exercise asks for
    page.get_by_role("button", name="Next step").click()
    page.wait_for_function(f"{RUN} === 'welcome'")
    assert page.locator(".cs-tour footer span").inner_text().startswith("2 of")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A server to kill; a round takes a fifth of a second."""
    app = App(tmp_path_factory.mktemp("killed") / "results.sqlite", 0.2)
    yield app
    app.process.kill()
    app.process.wait(20)


@pytest.fixture
def app(killed: App) -> App:
    """It runs, whatever became of it before."""
    if killed.process.poll() is not None:
        killed.start()
    return killed


@pytest.fixture
def theirs(browser: Browser, app: App) -> Iterator[Any]:
    """A page on it, which will complain of failed requests."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield Watched(page).open(app.url)
    context.close()


def test_a_server_that_dies_is_one_sentence_and_the_text_stays(app: App, theirs: Any) -> None:
    begin(theirs, ENDLESS)
    theirs.wait_for_function(f"{STAGE}.rounds.length > 2")
    app.kill()
    gone = theirs.locator(".cs-notice.is-lost")
    gone.get_by_text("Retry").wait_for(state="visible")
    assert theirs.locator(".cs-notice:visible").count() == 1 and not theirs.evaluate(f"{STAGE}.busy")
    assert theirs.evaluate("document.body.dataset.canopyState") == "lost"  # Run looks free, Stop does not
    assert "server stopped answering" in theirs.locator(CUT).inner_text()
    theirs.wait_for_timeout(2500)  # Gradio has noticed it too
    assert theirs.locator(".toast-wrap *:visible").count() == 0
    written = theirs.locator(".cs-frame-text .cs-output").inner_text()
    rounds = theirs.evaluate(f"{STAGE}.rounds.length")
    gone.get_by_text("Retry").click()
    theirs.locator(".cs-toast", has_text="still does not answer").wait_for(state="visible")
    ask(theirs, "Something else")
    app.start()
    theirs.wait_for_function("!document.body.classList.contains('canopy-lost') && window.Canopy && Canopy.parts?.ready")
    theirs.wait_for_function("document.querySelector('#canopy-prompt textarea')?.value === 'Something else'")
    assert theirs.evaluate(f"{STAGE}.rounds.length") == rounds
    assert theirs.locator(".cs-frame-text .cs-output").inner_text() == written
    theirs.locator(".cs-notice.is-news").get_by_text("Run it again").click()
    theirs.wait_for_function(f"{STAGE}.header.prompt === 'Something else' && {STAGE}.rounds.length > 0")


def test_run_on_a_dead_server_runs_when_it_is_back(app: App, theirs: Any) -> None:
    app.kill()
    ask(theirs, "Mine at last")
    theirs.click("#canopy-run")
    gone = theirs.locator(".cs-notice.is-lost", has_text="does not answer")
    gone.wait_for(state="visible")
    theirs.click("#canopy-run")
    theirs.locator(".cs-notice.is-lost", has_text="your prompt runs").wait_for(state="visible")
    app.start()
    theirs.wait_for_function(f"window.Canopy && Canopy.parts?.ready && {STAGE}.header.prompt === 'Mine at last'"
                             f" && {STAGE}.rounds.length > 0")


def test_messages_of_gradio_leave_the_header_free(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.evaluate("""() => {
        const toast = document.createElement("div");
        toast.className = document.querySelector(".toast-wrap")?.className || "toast-wrap";
        toast.style.cssText = "position: fixed; top: 28px; right: 12px; width: 300px; height: 60px";
        document.querySelector(".gradio-container").append(toast);
        window.toast = toast;
    }""")
    top, bar = page.evaluate("[toast, document.querySelector('.cs-bar')].map((box) => box.getBoundingClientRect())")
    assert top["top"] > bar["bottom"]
