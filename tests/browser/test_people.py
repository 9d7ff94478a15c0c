"""Two people at once: each sees their own run, waits in the queue, and frees the model by stopping or leaving."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.actions import RUN, STAGE, STATE, ask, current_trace, start
from tests.browser.conftest import Watched
from tests.explorer.scripted import ENDLESS

pytestmark = pytest.mark.long

STOP = "document.querySelector('#canopy-stop').click()"


def wait_for(page: Any, condition: str) -> None:
    """Poll by a timer, because frames are rare while another page of the same browser draws."""
    page.wait_for_function(condition, polling=100)


def open_two_pages(first: Watched, second: Watched, address: str) -> tuple[Any, Any]:
    """Return two pages: the first has a run in progress, and the second's run waits for it."""
    busy, waiting = first.open(f"{address}#mode=workbench"), second.open(f"{address}#mode=workbench")
    ask(busy, ENDLESS)
    start(busy, "ddtree")
    ask(waiting, "What about mine?")
    waiting.click("#canopy-run")
    wait_for(waiting, f"{STATE} === 'queued'")
    return busy, waiting


@pytest.mark.parametrize("leave", [lambda page: page.close(), lambda page: page.evaluate(STOP)], ids=["close", "stop"])
def test_the_second_run_waits_until_the_first_person_stops_or_leaves(
        watched: Watched, neighbour: Watched, address: str, leave: Callable[[Any], None]) -> None:
    busy, waiting = open_two_pages(watched, neighbour, address)
    notice, name = waiting.locator(".cs-notice.is-wait"), busy.evaluate(RUN)
    assert notice.is_visible() and waiting.evaluate(f"{STAGE}.rounds.length") > 0, "the shown run stays"
    leave(busy)
    wait_for(waiting, f"!{STAGE}.header.recorded && {STATE} === 'done'")
    assert notice.is_hidden() and waiting.evaluate(RUN) != name
    assert current_trace(waiting).header.prompt == "What about mine?"


def test_a_waiting_run_can_leave_the_queue(watched: Watched, neighbour: Watched, address: str) -> None:
    busy, waiting = open_two_pages(watched, neighbour, address)
    waiting.evaluate(STOP)
    assert waiting.locator(".cs-notice.is-wait").is_hidden()
    assert waiting.locator(".cs-badge").get_attribute("data-state") == "recorded"
    busy.evaluate(STOP)
    wait_for(busy, f"{STATE} === 'stopped'")
    waiting.wait_for_timeout(700)
    assert waiting.evaluate(RUN) == "welcome"
