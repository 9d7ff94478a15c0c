"""The first page, which plays and takes a prompt, and both pages behind a proxy that strips a path."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from gradio_client import Client
from playwright.sync_api import Browser

from explorer.bundle import startup_page
from tests.browser.actions import STAGE, STATE
from tests.browser.conftest import PORT, READY, Watched, served, visit
from tests.running import free_port

FIELD, PROMPT = ".cs-opening textarea", "#canopy-prompt textarea"
BUILT = f"{READY} && !document.querySelector('.cs-opening') && document.querySelector('{PROMPT}')"
BELOW = "/team/canopy"


class Proxy(BaseHTTPRequestHandler):
    """Forward requests below the path; answer others as another program would."""

    behind = ""

    def do_GET(self) -> None:
        if not self.path.startswith(f"{BELOW}/"):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>Another program</h1>")
            return
        asked = HTTPConnection(urlsplit(self.behind).netloc, timeout=600)  # a stream may be silent
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked.request(self.command, self.path.removeprefix(BELOW), body, dict(self.headers))
        answer = asked.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                self.send_header(name, value)
        self.end_headers()
        while piece := answer.read1():
            self.wfile.write(piece)
            self.wfile.flush()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def proxied(url: str) -> Iterator[str]:
    """Yield the address of this server behind the proxy."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Passing", (Proxy,), {"behind": url})) as proxy:
        proxy.daemon_threads = True
        Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_port}{BELOW}/"
        proxy.shutdown()


@contextmanager
def page_with_a_frame(port: int, url: str) -> Iterator[None]:
    """Serve a page that shows ``url`` in a frame."""
    class Framing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<iframe src="{url}" width="1200" height="700"></iframe>'.encode())

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", port), Framing) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield
        server.shutdown()


def check_flag_is_named(page: Any) -> None:
    page.wait_for_function(f"document.body?.innerText.includes('--root-path {BELOW}')")
    page.close()


def test_the_first_page_works_below_a_path_and_in_an_allowed_origins_frame(
        browser: Browser, tmp_path: Path) -> None:
    go, framing = tmp_path / "go", free_port()  # the page is built once this file exists
    words = ("-m", "tests.browser.serve", PORT, "0", "--root-path", BELOW, "--allow-frame", f"http://127.0.0.1:{framing}",
             "--until", str(go))
    with (served(*words, answers="") as direct, proxied(direct) as url, page_with_a_frame(framing, url),
          visit(browser, url) as asking, visit(browser, url) as stopping, visit(browser, url) as watching):
        lost = browser.new_page()  # not watched: its calls go to the other program
        lost.route(url, lambda route: route.fulfill(body=startup_page(()), content_type="text/html"))
        lost.goto(url)
        lost.fill(FIELD, "Who takes this?")
        check_flag_is_named(lost)
        asker, stopper = asking.open(url), stopping.open(f"{url}#mode=workbench&budget=8")
        watching.page.emulate_media(reduced_motion="no-preference")
        watcher = watching.open(url)
        assert asker.evaluate(f"{STAGE}.rounds.length") > 2 and asker.evaluate(f"{STAGE}.recorded")
        asker.fill(FIELD, "Who asks so early?")
        asker.press(FIELD, "Enter")
        asker.click(".cs-modes button:has-text('Workbench')")
        stopper.fill(FIELD, "Never mind")
        watcher.wait_for_function("parseInt(document.querySelector('.cs-track-flag')?.textContent) > 1")
        watcher.wait_for_function("location.hash.includes('trace=')")
        go.touch()

        asker.wait_for_function(
            f"{BUILT} && {STATE} === 'done' && {STAGE}.header.prompt === 'Who asks so early?'")
        assert asker.evaluate(f"{STAGE}.mode") == "workbench"

        stopper.wait_for_function(f"{BUILT} && document.querySelector('{PROMPT}').value === 'Never mind'")
        assert stopper.evaluate(f"[{STAGE}.recorded, {STAGE}.mode]") == [True, "workbench"]
        stopper.wait_for_function("document.querySelector('#canopy-budget input').value === '8'")  # of the address

        # The film ends before the page is replaced, by itself on a slow machine.
        skip = f"document.querySelector('{FIELD}') && Canopy.parts?.film.go('card')"
        watcher.wait_for_function(f"({skip}, {BUILT} && {STAGE}.scene === 'card')")
        cover = watcher.evaluate("document.documentElement.style.getPropertyValue('--still')")
        assert cover.startswith("url("), "the last frame covered the page while it was replaced"
        assert watcher.evaluate("!Canopy.controls.filled"), "not a choice: the rig's defaults may replace it"

        assert Client(url, verbose=False).predict(api_name="/recordings"), "programs get answers too"

        framed = browser.new_page()  # not watched: the refused frame is logged as an error
        framed.goto(f"http://localhost:{framing}/")  # the same page on an origin that is not allowed
        framed.frames[1].wait_for_url(re.compile("^chrome-error:"), wait_until="commit")
        framed.goto(f"http://127.0.0.1:{framing}/")
        frame = framed.frames[1]
        frame.wait_for_function(BUILT)
        frame.fill(PROMPT, "What is 3 + 4?")
        frame.click("#canopy-run")
        frame.wait_for_function(f"{STATE} === 'done' && !{STAGE}.recorded && {STAGE}.rounds.length > 0")
        framed.close()


def test_without_root_path_the_page_names_the_flag(browser: Browser, address: str) -> None:
    with proxied(address) as url:
        page = browser.new_page()  # not watched: its calls go to the other program
        page.goto(url)
        page.wait_for_function(READY)
        page.fill(PROMPT, "What is 3 + 4?")
        page.click("#canopy-run")
        check_flag_is_named(page)


def test_gradios_page_is_covered_until_the_first_view_is_drawn(
        browser: Browser, watched: Watched, address: str, tmp_path: Path) -> None:
    cover, first = "getComputedStyle(document.body, '::before').content", "document.querySelector('.cs-first')"
    with browser.new_context(java_script_enabled=False) as still:
        page = still.new_page()
        page.goto(address)
        assert page.evaluate(cover) == '"Canopy"'
    with browser.new_context() as begins:
        page = begins.new_page()
        page.route("**/*.js", lambda route: route.abort())  # without Gradio's scripts the page is never built
        for view, says in (("", True), ("#mode=workbench", False)):
            page.goto(f"{address}{view}", wait_until="commit")
            page.wait_for_function(first)
            assert page.evaluate(f"{first}.checkVisibility()") is says, "the first sentence is shown before scripts run"
            page.goto("about:blank")
        with served("-m", "tests.browser.serve", PORT, "0", "--follow", str(tmp_path)) as url:
            page.goto(url, wait_until="commit")
            page.wait_for_function(first)
            assert not page.evaluate(f"{first}.checkVisibility()"), "no film will follow"
    watched.page.add_init_script("""(() => {
        window.loaders = [];
        window.covered = [];
        const look = () => {
            for (const loader of document.querySelectorAll(".loading")) loaders.push(loader.checkVisibility());
            const first = document.querySelector(".cs-first");
            if (first && !document.body.matches(".cs-ready")) covered.push(first.checkVisibility());
        };
        new MutationObserver(look).observe(document, { childList: true, subtree: true });
    })()""")
    page = watched.open(address)
    assert page.evaluate(cover) == "none" and not page.evaluate(f"{first}.checkVisibility()")
    page.evaluate("Canopy.parts.film.go('plain')")
    assert page.locator(".cs-headline").inner_text() == page.evaluate(f"{first}.textContent")
    assert page.evaluate("loaders.length && !loaders.includes(true)"), "Gradio's page is never visible"
    assert page.evaluate("covered.every(Boolean)"), "the sentence stays until the view is drawn"
