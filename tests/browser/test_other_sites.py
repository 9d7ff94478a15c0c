"""No other website acts on a running Canopy or reads from it; its own page, links to it and programs go on as ever."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from gradio_client import Client
from playwright import sync_api

from tests.browser.conftest import CHROMIUM, READY
from tests.browser.other_sites import EVIL, RULES, ask_for_all, described, places, website

pytestmark = pytest.mark.long

SITES = ("another website", "another port of this machine", "a name that was made to lead here")


@pytest.fixture(scope="module")
def elsewhere(browser: sync_api.Browser) -> Iterator[sync_api.Browser]:
    """A browser for which two names of strangers lead to this machine."""
    chromium = browser.browser_type.launch(executable_path=CHROMIUM, args=["--no-sandbox", RULES])
    yield chromium
    chromium.close()


@pytest.fixture
def port() -> Iterator[int]:
    with website() as served:
        yield served


@pytest.mark.parametrize("site", SITES)
def test_no_endpoint_answers_another_site(elsewhere: sync_api.Browser, address: str, port: int, site: str) -> None:
    endpoints = described(address)
    called = {endpoint.body.get("fn_name") for endpoint in endpoints if endpoint.body}
    assert len(endpoints) > 100 and {"open_trace", "rig_choose", "lab_start", "lab_delete"} <= called
    opened, target = places(address, port)[site]
    page = elsewhere.new_page()
    page.goto(opened, wait_until="commit")
    attempts = ask_for_all(page, target, endpoints)
    page.close()
    assert attempts.let_in == [] and attempts.read == []
    seen = {words.split(": ", 1)[1] for words in attempts.refused}
    asked = {(endpoint.method, endpoint.path, str(endpoint.body)) for endpoint in endpoints}
    assert len(seen) > 0.9 * len(asked), "the requests did not arrive, so nothing was shown"


def test_the_same_requests_are_answered_where_they_come_from_the_own_page(
        elsewhere: sync_api.Browser, address: str) -> None:
    """So that the test above cannot pass because nothing is answered at all."""
    page = elsewhere.new_page()
    page.goto(f"{address}robots.txt")
    endpoints = [endpoint for endpoint in described(address) if "component_server" in endpoint.path]
    attempts = ask_for_all(page, address, endpoints)
    page.close()
    assert {endpoint.split(":")[0] for endpoint in attempts.read} == {"json"} and len(attempts.read) > 20


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_the_page_opens_under_every_name_of_this_machine(
        elsewhere: sync_api.Browser, address: str, port: int, name: str) -> None:
    address_of_page = f"http://{name}:{urlsplit(address).port}/"
    page = elsewhere.new_page()
    page.goto(f"http://{EVIL}:{port}/")
    page.evaluate("(url) => { location.href = url }", address_of_page)  # a link of another website leads to it
    page.wait_for_selector(".cs-stage")
    page.wait_for_function(READY)
    assert page.url.startswith(address_of_page)
    page.close()


def test_other_programs_go_on_asking(address: str) -> None:
    client = Client(address, verbose=False)
    assert client.predict(api_name="/lessons")
    job = client.submit(prompt="How many?", method="joint", budget=8, temperature=0.0, options={}, api_name="/generate")
    job.result(timeout=60)
    assert job.outputs()[-1]["state"] == "done"
