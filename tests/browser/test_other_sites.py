"""No other website can act on a running Canopy or read from it; its own page, links to it and programs are answered."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from gradio_client import Client
from playwright.sync_api import Browser, Page

from tests.browser.conftest import CHROMIUM, READY
from tests.browser.other_sites import Endpoint, ask_for_all, endpoints_of

pytestmark = pytest.mark.long

EVIL, REBOUND = "evil.example", "rebound.example"  # the second name's DNS entry points here
RULES = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1, MAP {REBOUND} 127.0.0.1"


@pytest.fixture(scope="module")
def elsewhere(browser: Browser) -> Iterator[Browser]:
    """Provide a browser in which two foreign host names resolve to this machine."""
    chromium = browser.browser_type.launch(executable_path=CHROMIUM, args=["--no-sandbox", RULES])
    yield chromium
    chromium.close()


@pytest.fixture
def page(elsewhere: Browser) -> Iterator[Page]:
    page = elsewhere.new_page()
    yield page
    page.close()


class Blank(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another website</title><body>")

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Provide the port of another website on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def endpoints(address: str) -> list[Endpoint]:
    def read(path: str) -> Any:
        with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:
            return json.load(answer)
    found = endpoints_of(read)
    called = {endpoint.body.get("fn_name") for endpoint in found if endpoint.body}
    assert len(found) > 100 and {"open_trace", "rig_choose", "lab_start", "lab_delete"} <= called
    return found


@pytest.mark.parametrize("site", ["another website", "another port of this machine", "a name that leads here"])
def test_no_endpoint_answers_another_site(
        page: Page, address: str, port: int, endpoints: list[Endpoint], site: str) -> None:
    rebound = f"http://{REBOUND}:{urlsplit(address).port}/"
    opened, target = {"another website": (f"http://{EVIL}:{port}/", address),
                      "another port of this machine": (f"http://127.0.0.1:{port}/", address),
                      "a name that leads here": (rebound, rebound)}[site]
    page.goto(opened, wait_until="commit")
    attempts = ask_for_all(page, target, endpoints)
    assert attempts.let_in == [] and attempts.read == []
    seen = {words.split(": ", 1)[1] for words in attempts.refused}
    asked = {(endpoint.method, endpoint.path, str(endpoint.body)) for endpoint in endpoints}
    assert len(seen) > 0.9 * len(asked), "no request arrived, so the test shows nothing"


def test_the_same_endpoints_answer_the_servers_own_page(page: Page, address: str, endpoints: list[Endpoint]) -> None:
    page.goto(f"{address}robots.txt")
    attempts = ask_for_all(page, address, [one for one in endpoints if "component_server" in one.path])
    assert {endpoint.split(":")[0] for endpoint in attempts.read} == {"json"} and len(attempts.read) > 20


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_a_link_of_another_site_opens_the_page_under_every_name_of_this_machine(
        page: Page, address: str, port: int, name: str) -> None:
    own = f"http://{name}:{urlsplit(address).port}/"
    page.goto(f"http://{EVIL}:{port}/")
    page.evaluate("(url) => { location.href = url }", own)
    page.wait_for_selector(".cs-stage")
    page.wait_for_function(READY)
    assert page.url.startswith(own)


def test_other_programs_are_answered(address: str) -> None:
    client = Client(address, verbose=False)
    assert client.predict(api_name="/recordings")
    job = client.submit(prompt="How many?", method="joint", budget=8, temperature=0.0, options={}, api_name="/generate")
    job.result(timeout=60)
    assert job.outputs()[-1]["state"] == "done"
