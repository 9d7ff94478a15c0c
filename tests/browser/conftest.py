"""A server of the scripted page and a browser, shared by the whole module; every page watched for errors."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, ViewportSize, sync_playwright

from tests.running import PORT, ROOT, free_port, served

__all__ = ["PORT", "ROOT", "free_port", "served"]  # for the tests of the browser

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
USUAL_SIZE: ViewportSize = {"width": 1440, "height": 900}
READY = "window.Canopy && Canopy.parts && Canopy.parts.ready"
PATIENCE_MS = int(os.environ.get("PATIENCE_MS", "90000"))  # for busy machines; a quiet one needs a second


@pytest.hookimpl(tryfirst=True)  # before ``-m`` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a busy machine a browser may answer late: what fails here gets a second try, which the summary counts."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def round_times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server writes down when it made each round."""
    return tmp_path_factory.mktemp("server") / "rounds"


@pytest.fixture(scope="session")
def address(round_times: Path) -> Iterator[str]:
    """The address of a server whose rounds take a twentieth of a second."""
    with served("-m", "tests.browser.serve", PORT, "0.05", "--log", str(round_times)) as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, or a skip if there is none."""
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"There is no Chromium at {CHROMIUM}; set CHROMIUM to one.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@dataclass
class Watched:
    """A page with everything it complained of or asked for elsewhere, and the requests that are under way."""

    page: Page
    pending: set[Request] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def open(self, url: str) -> Page:
        """Go there and wait for the stage."""
        self.page.goto(url)
        self.page.wait_for_selector(".cs-stage")
        self.page.wait_for_function(READY, polling=100)  # frames are few while another page draws all it can
        return self.page

    def show(self, view: str) -> Page:
        """Let the open page show what an address would, without opening it anew; panels are at their top, at rest."""
        self.page.set_viewport_size(USUAL_SIZE)
        self.page.evaluate("""async (view) => {
            const { stage, address } = Canopy.parts;
            stage.pin(null);
            history.replaceState(history.state, "", view);
            await address.restore();
            for (const region of document.querySelectorAll("*")) region.scrollTop = 0;
            for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
        }""", view)
        self.page.wait_for_function("Canopy.parts.frames.settled")
        return self.page


def new_context(browser: Browser) -> BrowserContext:
    """A browser of one person, who asked for stillness."""
    return browser.new_context(viewport=USUAL_SIZE, reduced_motion="reduce", accept_downloads=True)


@contextmanager
def visit(browser: Browser, address: str) -> Iterator[Watched]:
    """A page in a browser of its own."""
    context = new_context(browser)
    with watch(context, address) as watched:
        yield watched
    context.close()


def watch_page(page: Page, address: str) -> Watched:
    """Take note of what the page complains of and asks others for."""
    watched = Watched(page)
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda message: watched.complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: watched.complaints.append(f"{error} {error.stack}"))
    page.on("request", lambda asked: watched.foreign.append(asked.url)
            if not asked.url.startswith((address, "data:", "blob:", "about:")) else None)
    page.on("request", lambda begun: watched.pending.update([begun]))
    page.on("requestfinished", lambda ended: watched.pending.difference_update([ended]))
    page.on("requestfailed", lambda ended: watched.pending.difference_update([ended]))
    return watched


@contextmanager
def watch(context: BrowserContext, address: str) -> Iterator[Watched]:
    """A new page; fails if it logged an error or asked anybody else for anything."""
    watched = watch_page(context.new_page(), address)
    yield watched
    watched.page.close()
    assert watched.complaints == []
    assert watched.foreign == []


@pytest.fixture(scope="session")
def warm(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that has the page's scripts after the first test: fetching them is most of what opening it takes."""
    context = new_context(browser)
    yield context
    context.close()


@contextmanager
def first_visit(warm: BrowserContext, address: str) -> Iterator[Watched]:
    """A page of which nothing is kept."""
    with watch(warm, address) as watched:
        watched.page.goto(f"{address}robots.txt")
        watched.page.evaluate("localStorage.clear()")
        yield watched


@pytest.fixture
def watched(warm: BrowserContext, address: str) -> Iterator[Watched]:
    """A page of one person, of whom nothing is kept."""
    with first_visit(warm, address) as watched:
        yield watched
    warm.clear_permissions()


@pytest.fixture(scope="module")
def onlooker(warm: BrowserContext, address: str) -> Iterator[Watched]:
    """One page for all tests of a module that look and leave no trace: each begins with ``show``."""
    with first_visit(warm, address) as watched:
        watched.open(address)
        yield watched


@pytest.fixture
def neighbour(browser: Browser, address: str) -> Iterator[Watched]:
    """The page of somebody else."""
    with visit(browser, address) as watched:
        yield watched
