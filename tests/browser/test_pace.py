"""The page's speed: processor time per frame while scrubbing, and the delay between a round and its display. The
figures are printed; the limits are loose, because test machines are busy."""

import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.browser.actions import RUN, STAGE, ask, start
from tests.browser.conftest import Watched
from tests.explorer.scripted import prompt_for

pytestmark = pytest.mark.long

MAX_WORK_SECONDS = 0.1  # of the page's main thread per frame, with room for a busy machine
MAX_DELAY_SECONDS = 1.0  # an idle machine needs less than 0.1

SCRUB = """async () => {
    const { player, stage } = Canopy.parts;
    const wait = () => new Promise(requestAnimationFrame);
    const began = performance.now();
    for (let index = 0; index < 200; index++) {
        player.go(index, {});
        await wait();
    }
    await wait();
    return [(performance.now() - began) / 1000, stage.round.n, stage.current];
}"""


def work_seconds(session: Any) -> float:
    """Return the processor time of the page's main thread so far."""
    measured = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return float(measured["TaskDuration"])


def test_scrubbing_through_rounds_of_256_nodes_takes_little_processor_time(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=wide&mode=workbench")
    page.wait_for_function(f"{RUN} === 'wide' && {STAGE}.rounds.length >= 200")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = work_seconds(session)
    seconds, nodes, shown = page.evaluate(SCRUB)
    work = (work_seconds(session) - before) / 200
    print(f"200 rounds of 256 nodes: {200 / seconds:.0f} frames/s, {1000 * work:.1f} ms of the page's thread each")
    assert (nodes, shown) == (257, 199) and work < MAX_WORK_SECONDS


def test_a_round_is_shown_soon_after_it_was_made(watched: Watched, address: str, round_times: Path) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate("""() => {
        window.painted = {};
        const { stage } = Canopy.parts;
        stage.on("round", () => {
            const index = stage.current;
            if (stage.recorded || index in painted) return;
            painted[index] = 0;
            requestAnimationFrame(() => setTimeout(() => { painted[index] = Date.now() / 1000; }));
        });
    }""")
    before = len(round_times.read_text().splitlines()) if round_times.exists() else 0
    ask(page, prompt_for(60))
    start(page, "autoregressive")
    page.wait_for_function("Object.keys(painted).length >= 50 && painted[59] > 0")
    made = [float(line) for line in round_times.read_text().splitlines()[before:]]
    delays = sorted(at - made[int(index)] for index, at in page.evaluate("painted").items() if at)
    print(f"from a round to the screen: median {1000 * statistics.median(delays):.0f} ms of {len(delays)} rounds")
    assert delays[0] > 0 and statistics.median(delays) < MAX_DELAY_SECONDS
