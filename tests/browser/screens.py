"""Takes the README's pictures of the page: ``python -m tests.browser.screens [NAME …]``.

Story and workbench show the shipped recordings; the lab shows a sweep of the demo rig, measured for the pictures.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from subprocess import run
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
SWEEP = ("--methods", "dflash", "ddtree", "joint", "--budgets", "4", "8", "16", "32", "64", "128", "auto",
         "--prompts", "all", "--limit", "12", "--repeats", "1")
# The round that kept most, but for the first two: what came before it is in the text then.
MOST = """() => {
    const { rounds } = Canopy.parts.stage;
    return rounds.slice(2).reduce((best, made) => (made.keep.length > best.keep.length ? made : best)).index + 1;
}"""


def take(browser: Browser, url: str, name: str) -> None:
    """One picture, in 256 colours of which the rare ones are not lost: a median cut would drop whole origins."""
    scheme, view = PICTURES[name]
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")
    page.goto(url + view.format(most=1))
    page.wait_for_function("window.Canopy && Canopy.parts && Canopy.parts.ready")
    page.evaluate(f"Canopy.parts.player.go({page.evaluate(MOST)} - 1, {{}})")
    if "routing" in view:
        page.get_by_role("button", name="Show or hide the tree that was not chosen").click()
    if view == LAB:
        page.wait_for_selector("[data-plot=curves] .main-svg")
        page.wait_for_selector("[data-plot=live] .main-svg")
    page.wait_for_timeout(1500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    small = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(FOLDER / f"{name}.png", optimize=True)
    page.close()


def take_all(browser: Browser, names: list[str], *words: str) -> None:
    """These pictures, from one server."""
    with served("app.py", "--port", PORT, *words, CUDA_VISIBLE_DEVICES="") as url:
        for name in names:
            take(browser, url, name)
            print(f"{name}: {(FOLDER / f'{name}.png').stat().st_size // 1000} kB")


def main() -> None:
    """The recordings without a model, the lab with the demo rig and what it measured."""
    FOLDER.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or list(PICTURES)
    lab = [name for name in wanted if PICTURES[name][1] == LAB]
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        if recordings := [name for name in wanted if name not in lab]:
            take_all(browser, recordings, "--rig", "none")
        if lab:
            results = Path(folder) / "results.sqlite"
            run([sys.executable, "-m", "engine.sweep", *SWEEP, "--out", str(results)], check=True)
            take_all(browser, lab, "--rig", "demo", "--results", str(results))
        browser.close()


if __name__ == "__main__":
    main()
