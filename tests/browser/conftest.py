"""Fixtures of the browser tests: a server of the scripted page, a browser, and pages whose errors fail the test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, ViewportSize, sync_playwright

from tests.running import PORT, ROOT, free_port, served

__all__ = ["PORT", "ROOT", "free_port", "served"]  # re-exported for the browser tests

CHROMIUM = (os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
            or "/usr/bin/chromium")
USUAL_SIZE: ViewportSize = {"width": 1440, "height": 900}
READY = "window.Canopy && Canopy.parts && Canopy.parts.ready"
PATIENCE_MS = int(os.environ.get("PATIENCE_MS", "90000"))  # an idle machine needs 1000


@pytest.hookimpl(tryfirst=True)  # before ``-m`` deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Repeat a failing browser test once, since a busy machine may answer late; the summary counts repetitions."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def round_times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the file in which the server records the time of each round."""
    return tmp_path_factory.mktemp("server") / "rounds"


@pytest.fixture(scope="session")
def address(round_times: Path) -> Iterator[str]:
    """Provide the address of a server whose rounds take 0.05 s."""
    with served("-m", "tests.browser.serve", PORT, "0.05", "--log", str(round_times)) as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Provide Chromium, or skip if it is not installed."""
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"There is no Chromium at {CHROMIUM}; set CHROMIUM to one.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@dataclass
class Watched:
    """Hold a page, its errors, its requests to other hosts, and the requests in progress."""

    page: Page
    pending: set[Request] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def open(self, url: str) -> Page:
        """Open the address and wait for the stage."""
        self.page.goto(url)
        self.page.wait_for_selector(".cs-stage")
        self.page.wait_for_function(READY, polling=100)  # frames are rare while another page draws
        return self.page

    def show(self, view: str) -> Page:
        """Show a view as an address would, without reloading; scroll panels to the top and end animations."""
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
    """Return a new person's browser context, which asks for reduced motion."""
    return browser.new_context(viewport=USUAL_SIZE, reduced_motion="reduce", accept_downloads=True)


@contextmanager
def visit(browser: Browser, address: str) -> Iterator[Watched]:
    """Yield a watched page in a new context."""
    context = new_context(browser)
    with watch(context, address) as watched:
        yield watched
    context.close()


def watch_page(page: Page, address: str) -> Watched:
    """Record the page's errors and its requests to other hosts."""
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
    """Yield a new page; fail if it logged an error or sent a request to another host."""
    watched = watch_page(context.new_page(), address)
    yield watched
    watched.page.close()
    assert watched.complaints == []
    assert watched.foreign == []


@pytest.fixture(scope="session")
def warm(browser: Browser) -> Iterator[BrowserContext]:
    """Provide a context whose cache has the page's scripts, since fetching them takes most of the load time."""
    context = new_context(browser)
    yield context
    context.close()


@contextmanager
def first_visit(warm: BrowserContext, address: str) -> Iterator[Watched]:
    """Clear the storage, and yield a new page."""
    with watch(warm, address) as watched:
        watched.page.goto(f"{address}robots.txt")
        watched.page.evaluate("localStorage.clear()")
        yield watched


@pytest.fixture
def watched(warm: BrowserContext, address: str) -> Iterator[Watched]:
    """Provide a page with empty storage."""
    with first_visit(warm, address) as watched:
        yield watched
    warm.clear_permissions()


@pytest.fixture(scope="module")
def onlooker(warm: BrowserContext, address: str) -> Iterator[Watched]:
    """Provide one page for all tests of a module that change nothing lasting; each begins with ``show``."""
    with first_visit(warm, address) as watched:
        watched.open(address)
        yield watched


@pytest.fixture
def neighbour(browser: Browser, address: str) -> Iterator[Watched]:
    """Provide a second person's page."""
    with visit(browser, address) as watched:
        yield watched
