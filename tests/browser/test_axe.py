"""axe finds nothing to complain of in what is ours, in every way to look, light and dark; and all has a name."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from engine.trace import dumps
from tests.browser.conftest import PORT, Watched, served, visit
from tests.browser.doing import upload
from tests.explorer.scripted import scripted_trace

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf8")
COMPLAINTS = """axe.run(document, {resultTypes: ['violations'],
  rules: {'label-content-name-mismatch': {enabled: true}}}).then(({violations}) => violations.flatMap(
  (each) => each.nodes.map((node) => `${each.id}: ${node.target.join(' ')}`)))"""


LARGE, LOW, PHONE = (1440, 900), (1280, 720), (390, 844)


@pytest.mark.parametrize("sizes", [(LARGE,), pytest.param((LOW, PHONE), marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", ["story", "workbench", "lab"])
def test_axe_finds_nothing(watched: Watched, address: str, mode: str, sizes: tuple[tuple[int, int], ...]) -> None:
    page = watched.page
    page.goto(f"{address}#trace=merged&mode={mode}&round=4")
    page.wait_for_function("window.Canopy && Canopy.parts && Canopy.parts.stage && Canopy.parts.stage.current === 3")
    for width, height in sizes:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"document.body.dataset.canopyMode === '{mode}' && !Canopy.parts.frames.planned")
        page.wait_for_function(f"'{mode}' === 'lab' || document.querySelector('[role=tree] [role=treeitem]')")
        judge_themes(page)


def judge_themes(page: Page) -> None:
    """What axe says in light and in dark, once Gradio's buttons have faded from one to the other."""
    page.evaluate(AXE)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(100)
        page.wait_for_function("!document.getAnimations().some((change) => change instanceof CSSTransition)")
        assert page.evaluate(COMPLAINTS) == [], (page.viewport_size, scheme)


def test_everything_says_what_it_is(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    frames = page.locator(".cs-frame")
    names = frames.evaluate_all("(frames) => frames.map((frame) => frame.dataset.panel)")
    assert names == ["text", "tree", "budget", "marginals", "mask", "verifier", "cache", "batch"]
    hidden = [name for name in names if page.locator(f"[data-panel={name}]").is_hidden()]
    assert hidden == ["batch"]  # nobody shares a recording's rounds
    for frame in frames.all():
        caption = frame.locator(".cs-caption").inner_text()
        assert caption.endswith(".") and caption.count(". ") == 0
        assert frame.locator(".cs-legend li").count() > 2
        assert all(item.get_attribute("title") for item in frame.locator(".cs-legend li").all())
    metrics = page.locator(".cs-metric:visible")
    assert metrics.count() >= 5
    assert all(len(metric.get_attribute("title") or "") > 30 for metric in metrics.all())
    assert all(len(metric.locator("dt").inner_text()) > 3 for metric in metrics.all())


def judge_tabs(page: Page, url: str, tabs: Sequence[str]) -> None:
    """What axe says of these tabs of the lab, whose measurement is of another rig: the faint has to be legible too."""
    page.goto(f"{url}#trace=merged&mode=lab&tab={tabs[0]}&round=4")
    page.wait_for_function("window.Canopy && Canopy.laboratory && Canopy.laboratory.curves")
    page.evaluate("Canopy.laboratory.follow(0)")
    page.wait_for_function("Canopy.laboratory.table")
    page.evaluate(AXE)
    for tab in tabs:
        page.evaluate(f"Canopy.laboratory.tabs.go('{tab}')")
        if tab == "speed":
            page.click(".lab-elsewhere > summary")
            page.wait_for_function("document.querySelectorAll('.lab-paste .lab-command').length > 2")
        if tab == "compare":
            page.wait_for_function("document.querySelectorAll('.lab-pair-tree:has([role=treeitem])').length === 2")
        assert page.evaluate(COMPLAINTS) == [], tab


@pytest.mark.long
def test_axe_finds_nothing_in_the_tabs_of_the_lab(
        watched: Watched, address: str, browser: Browser, tmp_path: Path) -> None:
    judge_tabs(watched.page, address, ("speed", "acceptance", "compare"))
    with served("-m", "tests.browser.serve", PORT, "0.05", "--results", str(tmp_path / "r.sqlite")) as url, visit(
            browser, url) as measured:
        judge_tabs(measured.page, url, ("load", "check"))


@pytest.mark.long
def test_axe_finds_nothing_on_the_sheet_of_rigs(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.wait_for_function("Canopy.parts.rigs.state")
    # as it looks if another may be chosen, one is being loaded, and the one before could not be
    page.evaluate("""() => {
      const { rigs } = Canopy.parts;
      rigs.look = () => rigs.draw();
      const loading = {name: 'own', message: 'Reading …', share: 0.5};
      rigs.state = {...rigs.state, closed: '', failure: 'There is no rig.', loading};
      rigs.open();
    }""")
    assert page.is_visible(".cs-rig-form progress") and page.is_visible(".cs-rig-failure")
    judge_themes(page)


@pytest.mark.long
def test_axe_finds_nothing_in_a_conversation(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    turns = (("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello."))
    upload(page, "talk.jsonl", dumps(scripted_trace("joint", 32, turns=turns)))
    page.wait_for_selector(".cs-turn >> text=Turn 2")
    page.wait_for_selector(".cs-turn-before >> text=Be brief.")
    judge_themes(page)
