"""Take the README's pictures of the page: ``python -m tests.browser.screens [NAME …]``.

All show what ships, on the demo rig: story and workbench recorded runs, the lab its recorded sweep."""

import io
import sys
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import CHROMIUM, PORT, ROOT, served

FOLDER = ROOT / "assets" / "screens"
SIZE = {"width": 1440, "height": 900}
LAB = "#trace=welcome&round={most}&mode=lab"
PICTURES = {
    "story-light": ("light", "#trace=welcome&round={most}&mode=story"),
    "story-dark": ("dark", "#trace=welcome&round={most}&mode=story"),
    "workbench-light": ("light", "#trace=merging&round={most}&mode=workbench"),
    "workbench-dark": ("dark", "#trace=routing&round={most}&mode=workbench"),
    "lab-light": ("light", LAB),
    "lab-dark": ("dark", LAB),
}
# The round that kept most nodes, except the first two, so that some text precedes it.
BUSIEST_ROUND = """() => {
    const { rounds } = Canopy.parts.stage;
    return rounds.slice(2).reduce((best, made) => (made.keep.length > best.keep.length ? made : best)).index + 1;
}"""


def take(browser: Browser, url: str, name: str) -> None:
    """Save a picture in 256 colours; a median cut loses rare ones, and without k-means the background is tinted."""
    scheme, view = PICTURES[name]
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")
    page.goto(url + view.format(most=1))
    page.wait_for_function("window.Canopy && Canopy.parts && Canopy.parts.ready")
    page.wait_for_function("Canopy.parts.rigs.state && !Canopy.parts.rigs.state.first_load")
    page.evaluate(f"Canopy.parts.player.go({page.evaluate(BUSIEST_ROUND)} - 1, {{}})")
    if "routing" in view:
        page.get_by_role("button", name="Show or hide the tree that was not chosen").click()
    if view == LAB:
        page.wait_for_selector("[data-plot=curves] .main-svg")
    page.wait_for_timeout(1500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    small = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    small.save(FOLDER / f"{name}.png", optimize=True)
    page.close()


def main() -> None:
    """Take the named pictures, or all, from one server."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        words = ("--port", PORT, "--rig", "demo", "--results", f"{folder}/results.sqlite")
        with served("app.py", *words, CUDA_VISIBLE_DEVICES="") as url:
            for name in sys.argv[1:] or PICTURES:
                take(browser, url, name)
                print(f"{name}: {(FOLDER / f'{name}.png').stat().st_size // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main()
