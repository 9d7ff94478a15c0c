"""The page behind a proxy that serves it below a path, which it takes away, and that answers for everything else."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from gradio_client import Client

from tests.browser.conftest import PORT, READY, served, visit

BELOW = "/team/canopy"


class Proxy(BaseHTTPRequestHandler):
    """Passes on what lies below the path; all else is another program's page."""

    behind = ""

    def do_GET(self) -> None:
        if not self.path.startswith(f"{BELOW}/"):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>Another program</h1>")
            return
        asked = HTTPConnection(urlsplit(self.behind).netloc, timeout=60)
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

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def behind_a_proxy(*words: str) -> Iterator[str]:
    """The address of a scripted page behind the proxy."""
    with served("-m", "tests.browser.serve", PORT, "0", *words, answers="") as url:
        handler = type("Passing", (Proxy,), {"behind": url})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
            proxy.daemon_threads = True
            Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
            yield f"http://127.0.0.1:{proxy.server_port}{BELOW}/"
            proxy.shutdown()


def test_with_root_path_it_answers_from_its_first_second_on(browser: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with behind_a_proxy("--root-path", BELOW, "--until", str(go)) as url, visit(browser, url) as watched:
        page = watched.page
        page.goto(url)
        page.wait_for_selector(".cs-opening")
        go.touch()
        page.wait_for_function(f"!document.querySelector('.cs-opening') && {READY}")
        page.fill("#canopy-prompt textarea", "What is 3 + 4?")
        page.click("#canopy-run")
        page.wait_for_function("Canopy.parts.stage.state === 'done' && !Canopy.parts.stage.recorded")
        assert page.evaluate("Canopy.parts.stage.rounds.length") > 0
        assert Client(url, verbose=False).predict(api_name="/lessons"), "and to programs"


@pytest.mark.parametrize("until", [False, True])
def test_without_it_the_page_says_that_nobody_answers_and_names_the_flag(
        browser: Any, tmp_path: Path, until: bool) -> None:
    go = tmp_path / "go"
    with behind_a_proxy(*(["--until", str(go)] if until else [])) as url:
        page = browser.new_page()  # not watched: its calls go to the other program
        page.goto(url)
        if until:
            page.fill(".cs-opening textarea", "What is 3 + 4?")
        else:
            page.wait_for_function(READY)
            page.fill("#canopy-prompt textarea", "What is 3 + 4?")
            page.click("#canopy-run")
        page.wait_for_function(f"document.body.innerText.includes('--root-path {BELOW}')")
        page.close()
        go.touch()
