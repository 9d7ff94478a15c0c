"""Two people at once: each sees their own run, waits in line, and frees the model by leaving."""

import time
from typing import Any

import pytest

from explorer.runs import LAPSE_SECONDS
from tests.browser.conftest import Watched
from tests.browser.doing import RUN, STAGE, STATE, ask, choose, exported, start
from tests.explorer.scripted import ENDLESS

pytestmark = pytest.mark.long

EVERY_MS = 100  # asked by a clock: frames are few while another page of the same browser draws all it can
STOP = "document.querySelector('#canopy-stop').click()"


def wait_for(page: Any, what: str) -> None:
    """Until the page says so."""
    page.wait_for_function(what, polling=EVERY_MS)


def test_the_second_waits_and_is_told_and_a_closed_tab_lets_them_up(
        watched: Watched, neighbour: Watched, address: str) -> None:
    first, second = watched.open(f"{address}#mode=workbench"), neighbour.open(f"{address}#mode=workbench")
    ask(first, ENDLESS)
    start(first, "ddtree")
    ask(second, "What about mine?")
    choose(second, "canopy-method", "joint")
    second.click("#canopy-run")
    wait = second.locator(".cs-notice.is-wait")
    wait_for(second, f"{STATE} === 'queued'")
    assert "has the machine to itself; yours starts" in wait.inner_text()
    assert second.locator(".cs-badge").inner_text().strip().endswith("queued")
    assert second.evaluate(f"{STAGE}.rounds.length") > 0  # what was there stays
    name = first.evaluate(RUN)
    began = time.monotonic()
    first.close()
    wait_for(second, f"!{STAGE}.header.recorded && {STAGE}.rounds.length > 0")
    took = time.monotonic() - began
    print(f"a closed tab: the next run's first round after {took:.2f} s")
    assert took < LAPSE_SECONDS + 5
    assert second.evaluate(RUN) != name and second.evaluate(f"{STAGE}.header.prompt") == "What about mine?"
    wait_for(second, f"{STATE} === 'done'")
    assert wait.is_hidden()


def test_stop_lets_the_next_one_up_within_a_second(watched: Watched, neighbour: Watched, address: str) -> None:
    first, second = watched.open(f"{address}#mode=workbench"), neighbour.open(f"{address}#mode=workbench")
    ask(first, ENDLESS)
    start(first, "merged")
    ask(second, ENDLESS)
    choose(second, "canopy-method", "ddtree")
    second.click("#canopy-run")
    wait_for(second, f"{STATE} === 'queued'")
    began = time.monotonic()
    first.evaluate(STOP)
    wait_for(second, f"!{STAGE}.header.recorded && {STAGE}.rounds.length > 0")
    took = time.monotonic() - began
    print(f"Stop: the next run's first round after {took:.2f} s")
    assert took < 5
    wait_for(first, f"{STATE} === 'stopped'")
    assert exported(first).header.request.method == "merged" and exported(second).header.request.method == "ddtree"
    second.evaluate(STOP)
    wait_for(second, f"{STATE} === 'stopped'")


def test_whoever_waits_may_leave_the_line(watched: Watched, neighbour: Watched, address: str) -> None:
    first, second = watched.open(f"{address}#mode=workbench"), neighbour.open(f"{address}#mode=workbench")
    ask(first, ENDLESS)
    start(first, "ddtree")
    second.click("#canopy-run")
    wait_for(second, f"{STATE} === 'queued'")
    second.evaluate(STOP)
    assert second.locator(".cs-notice.is-wait").is_hidden()
    assert second.locator(".cs-badge").get_attribute("data-state") == "recorded"
    first.evaluate(STOP)
    wait_for(first, f"{STATE} === 'stopped'")
    second.wait_for_timeout(700)
    assert second.evaluate(f"{STAGE}.value.run") == "welcome"
