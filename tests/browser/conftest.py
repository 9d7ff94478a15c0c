"""A server of the scripted page and a browser, shared by the whole module; every page watched for errors."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

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
    """Chromium, or a skip where there is none."""
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"There is no Chromium at {CHROMIUM}; set CHROMIUM to one.")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@dataclass
class Watched:
    """A page with everything it complained of or asked for elsewhere."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def open(self, url: str) -> Page:
        """Go there and wait for the stage."""
        self.page.goto(url)
        self.page.wait_for_selector(".cs-stage")
        self.page.wait_for_function(READY)
        return self.page

    def show(self, view: str) -> Page:
        """Let the open page show what an address would, without opening it anew."""
        self.page.set_viewport_size(USUAL_SIZE)
        self.page.evaluate("""async (view) => {
            const { stage, address } = Canopy.parts;
            stage.pin(null);
            history.replaceState(history.state, "", view);
            await address.restore();
        }""", view)
        self.page.wait_for_function("!Canopy.parts.frames.planned")
        return self.page


@contextmanager
def visit(browser: Browser, address: str) -> Iterator[Watched]:
    """A person with a browser of their own; fails if the page logged an error or asked anybody else for anything."""
    context = browser.new_context(viewport=USUAL_SIZE, reduced_motion="reduce",
                                  accept_downloads=True)
    made = Watched(context.new_page())
    made.page.set_default_timeout(PATIENCE_MS)
    made.page.on("console", lambda said: made.complaints.append(said.text) if said.type == "error" else None)
    made.page.on("pageerror", lambda error: made.complaints.append(f"{error} {error.stack}"))
    made.page.on("request", lambda asked: _note(made, asked.url, address))
    yield made
    context.close()
    assert made.complaints == []
    assert made.foreign == []


@pytest.fixture
def watched(browser: Browser, address: str) -> Iterator[Watched]:
    """A fresh page of one person."""
    with visit(browser, address) as made:
        yield made


@pytest.fixture(scope="module")
def onlooker(browser: Browser, address: str) -> Iterator[Watched]:
    """One page for all tests of a module that look and leave no trace: each begins with ``show``."""
    with visit(browser, address) as made:
        made.open(address)
        yield made


@pytest.fixture
def neighbour(browser: Browser, address: str) -> Iterator[Watched]:
    """The page of somebody else."""
    with visit(browser, address) as made:
        yield made


def _note(made: Watched, url: str, address: str) -> None:
    if not url.startswith((address, "data:", "blob:", "about:")):
        made.foreign.append(url)
