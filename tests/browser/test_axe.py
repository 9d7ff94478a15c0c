"""axe finds nothing to complain of in what is ours, in every way to look, light and dark; and all has a name."""

from __future__ import annotations

from importlib.resources import files

import pytest
from playwright.sync_api import Browser

from engine.trace import dumps
from tests.browser.conftest import PORT, Watched, served, visit
from tests.browser.doing import upload
from tests.explorer.scripted import scripted_trace

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf8")
COMPLAINTS = """axe.run(document, {resultTypes: ['violations'],
  rules: {'label-content-name-mismatch': {enabled: true}}}).then(({violations}) => violations.flatMap(
  (each) => each.nodes.map((node) => `${each.id}: ${node.target.join(' ')}`)))"""


LARGE, LOW, PHONE = (1440, 900), (1280, 720), (390, 844)
VIEWS = [pytest.param(mode, scheme, size, marks=[] if size == LARGE else pytest.mark.long)
         for mode in ("story", "workbench", "lab") for scheme in ("light", "dark") for size in (LARGE, LOW, PHONE)]


@pytest.mark.parametrize(("mode", "scheme", "size"), VIEWS)
def test_axe_finds_nothing(watched: Watched, address: str, mode: str, scheme: str, size: tuple[int, int]) -> None:
    watched.page.emulate_media(color_scheme=scheme)
    watched.page.set_viewport_size({"width": size[0], "height": size[1]})
    page = watched.page
    page.goto(f"{address}#trace=merged&mode={mode}&round=4")
    page.wait_for_function("window.Canopy && Canopy.parts && Canopy.parts.stage && Canopy.parts.stage.current === 3")
    page.wait_for_function(f"document.body.dataset.canopyMode === '{mode}' && !Canopy.parts.frames.planned")
    page.wait_for_function(f"'{mode}' === 'lab' || document.querySelector('[role=tree] [role=treeitem]')")
    page.evaluate(AXE)
    assert page.evaluate(COMPLAINTS) == []


def test_everything_says_what_it_is(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    frames = page.locator(".cs-frame")
    names = frames.evaluate_all("(frames) => frames.map((frame) => frame.dataset.panel)")
    assert names == ["text", "tree", "marginals", "mask", "verifier", "cache", "batch"]
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


@pytest.mark.long
@pytest.mark.parametrize("tab", ["cost", "load", "race", "doctor"])
def test_axe_finds_nothing_where_a_rig_is_measured(
        browser: Browser, tmp_path_factory: pytest.TempPathFactory, tab: str) -> None:
    results = tmp_path_factory.mktemp("lab") / "results.sqlite"
    with served("-m", "tests.browser.serve_lab", PORT, "0.05", str(results)) as url, visit(browser, url) as made:
        (page := made.page).goto(f"{url}#mode=lab&tab={tab}")
        page.wait_for_function("window.Canopy && Canopy.laboratory && Canopy.laboratory.curves")
        page.evaluate("Canopy.laboratory.follow(0)")  # of another rig: what is faint has to be legible too
        page.wait_for_function("Canopy.laboratory.table")
        page.wait_for_function(f"Canopy.laboratory.tabs.current === '{tab}'")
        page.evaluate(AXE)
        assert page.evaluate(COMPLAINTS) == []


@pytest.mark.long
@pytest.mark.parametrize("tab", ["table", "shapes", "compare"])
def test_axe_finds_nothing_in_the_tabs_of_the_lab(watched: Watched, address: str, tab: str) -> None:
    (page := watched.page).goto(f"{address}#trace=merged&mode=lab&tab={tab}&round=4")
    page.wait_for_function("window.Canopy && Canopy.laboratory && Canopy.laboratory.curves")
    page.evaluate("Canopy.laboratory.follow(0)")  # of another rig: what is faint has to be legible too
    page.wait_for_function("Canopy.laboratory.table")
    assert page.evaluate("Canopy.laboratory.tab") == tab
    if tab == "compare":
        page.wait_for_function("document.querySelectorAll('.lab-pair-tree [role=treeitem]').length > 2")
    page.evaluate(AXE)
    assert page.evaluate(COMPLAINTS) == []


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_sheet_of_rigs(watched: Watched, address: str, scheme: str) -> None:
    watched.page.emulate_media(color_scheme=scheme)
    page = watched.open(address)
    page.wait_for_function("Canopy.parts.rigs.state")
    # as it looks where another may be chosen, one is being loaded, and the one before could not be
    page.evaluate("""() => {
      const { rigs } = Canopy.parts;
      rigs.look = () => rigs.draw();
      const loading = {name: 'own', message: 'Reading …', share: 0.5};
      rigs.state = {...rigs.state, closed: '', failure: 'There is no rig.', loading};
      rigs.open();
    }""")
    assert page.is_visible(".cs-rig-form progress") and page.is_visible(".cs-rig-failure")
    page.evaluate(AXE)
    assert page.evaluate(COMPLAINTS) == []


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_conversation(watched: Watched, address: str, scheme: str) -> None:
    watched.page.emulate_media(color_scheme=scheme)
    page = watched.open(f"{address}#mode=workbench")
    said = (("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello."))
    upload(page, "talk.jsonl", dumps(scripted_trace("joint", 32, turns=said)))
    page.wait_for_selector(".cs-turn >> text=Turn 2")
    page.wait_for_selector(".cs-said >> text=Be brief.")
    page.evaluate(AXE)
    assert page.evaluate(COMPLAINTS) == []
