"""Count the frames that the page draws while a run plays: ``python -m tests.browser.frames``.

A live run of the demo rig computes on the same processors; a replay has them to itself. A frame is late if more than
one and a half frames of the wanted rate have passed since the one before."""

from statistics import median
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM, PORT, READY, served

PROMPT = "Ben has 3 boxes with 8 pens each. He loses 5 pens. How many pens are left? Then write a function for it."
CASES = {"live, 64 nodes": (64, True, 60), "live, 1,024 nodes": (1024, True, 30), "replay, 64 nodes": (64, False, 60)}
# The milliseconds between the frames from now until the run has ended and was played.
INTERVALS = """() => new Promise((resolve) => {
    const { stage, player } = Canopy.parts;
    const times = [];
    const frame = (now) => {
        times.push(now);
        if (stage.busy || player.playing || times.length < 2) requestAnimationFrame(frame);
        else resolve(times.slice(1).map((time, place) => time - times[place]));
    };
    requestAnimationFrame(frame);
})"""


def intervals(page: Page, nodes: int, live: bool) -> list[float]:
    """Return the milliseconds between the frames of a run with this node budget; of its replay if it is not live."""
    page.fill("#canopy-prompt textarea", PROMPT)
    page.fill("#canopy-budget input", str(nodes))
    page.press("#canopy-budget input", "Tab")
    page.wait_for_function(f"Canopy.parts.stage.settings.budget === {nodes}")
    page.click("#canopy-run")
    page.wait_for_function("Canopy.parts.stage.busy")
    measured: list[float] = page.evaluate(INTERVALS)
    if live:
        return measured
    page.evaluate("Canopy.parts.player.go(0, {})")
    page.locator(".cs-play").click()
    replayed: list[float] = page.evaluate(INTERVALS)
    return replayed


def main() -> None:
    """Print a line for each case."""
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        words = ("--port", PORT, "--rig", "demo", "--results", f"{folder}/results.sqlite")
        with served("app.py", *words, CUDA_VISIBLE_DEVICES="") as url:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{url}#mode=workbench&method=ddtree")
            page.wait_for_function(READY)
            page.wait_for_function("Canopy.parts.rigs.state && !Canopy.parts.rigs.state.first_load")
            for name, (nodes, live, rate) in CASES.items():
                found = sorted(intervals(page, nodes, live))
                late = sum(one > 1500 / rate for one in found)
                print(f"{name}: {len(found)} frames, median {median(found):.1f} ms, 95 % within "
                      f"{found[int(0.95 * len(found))]:.1f} ms, {late} late at {rate} a second")
        browser.close()


if __name__ == "__main__":
    main()
