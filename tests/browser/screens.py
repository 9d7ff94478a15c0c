"""Takes the README's pictures of the page on the shipped recordings: ``python -m tests.browser.screens``."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from subprocess import Popen

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import CHROMIUM, _wait_for, free_port

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "screens"
SIZE = {"width": 1440, "height": 900}
PICTURES = {
    "story-light": ("light", "#trace=welcome&round={most}&mode=story"),
    "story-dark": ("dark", "#trace=welcome&round={most}&mode=story"),
    "workbench-light": ("light", "#trace=merging&round={most}&mode=workbench"),
    "workbench-dark": ("dark", "#trace=routing&round={most}&mode=workbench"),
}
# The round that kept most, but for the first two: what came before it is in the text then.
MOST = """() => {
    const { rounds } = Canopy.parts.stage;
    return rounds.slice(2).reduce((best, made) => (made.keep.length > best.keep.length ? made : best)).index + 1;
}"""


def take(browser: Browser, url: str, name: str) -> None:
    """One picture, in 256 colours of which the rare ones are not lost: a median cut would drop whole origins."""
    scheme, view = PICTURES[name]
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(url + view.format(most=1))
    page.wait_for_function("window.Canopy && Canopy.parts && Canopy.parts.ready")
    page.evaluate(f"Canopy.parts.player.go({page.evaluate(MOST)} - 1, {{}})")
    if "routing" in view:
        page.get_by_role("button", name="Show or hide the tree that was not verified").click()
    page.wait_for_timeout(1500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    small = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(FOLDER / f"{name}.png", optimize=True)
    page.close()


def main() -> None:
    """Serve the recordings, without a model, and take every picture."""
    port, url = free_port(), ""
    FOLDER.mkdir(exist_ok=True)
    server = Popen([sys.executable, "app.py", "--rig", "none", "--port", str(port)], cwd=FOLDER.parents[1],
                   env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    try:
        _wait_for(url := f"http://127.0.0.1:{port}/", server)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for name in PICTURES:
                take(browser, url, name)
                print(f"{name}: {(FOLDER / f'{name}.png').stat().st_size // 1000} kB")
            browser.close()
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main()
