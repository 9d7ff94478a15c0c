"""axe reports nothing in any view, light or dark, and the keyboard reaches everything in order."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from engine.trace import dumps
from tests.browser.actions import show_round, upload
from tests.browser.conftest import PORT, Watched, served, visit
from tests.explorer.scripted import scripted_trace

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf8")
COMPLAINTS = """axe.run(document, {resultTypes: ['violations'],
  rules: {'label-content-name-mismatch': {enabled: true}}}).then(({violations}) => violations.flatMap(
  (each) => each.nodes.map((node) => `${each.id}: ${node.target.join(' ')}`)))"""
LARGE, LOW, PHONE = (1440, 900), (1280, 720), (390, 844)


def check_axe(page: Page, schemes: tuple[str, ...] = ("light", "dark")) -> None:
    """Assert that axe reports nothing, after the buttons' colour transition has ended."""
    page.evaluate(AXE)
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(100)
        page.wait_for_function("!document.getAnimations().some((change) => change instanceof CSSTransition)")
        assert page.evaluate(COMPLAINTS) == [], (page.viewport_size, scheme)


@pytest.mark.parametrize("sizes", [(LARGE,), pytest.param((LOW, PHONE), marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", ["story", "workbench", "lab"])
def test_axe_finds_nothing_in_views(onlooker: Watched, mode: str, sizes: tuple[tuple[int, int], ...]) -> None:
    page = onlooker.show(f"#trace=merged&mode={mode}&round=4")
    for width, height in sizes:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function("Canopy.parts.frames.settled")
        page.wait_for_function(f"'{mode}' === 'lab' || document.querySelector('[role=tree] [role=treeitem]')")
        check_axe(page)


def open_menus(page: Any) -> None:
    page.get_by_role("button", name="Runs").click()
    page.get_by_role("button", name="Save or share this run").click()


def open_rigs(page: Any) -> None:
    """Open the sheet of rigs while one is loading after another failed."""
    page.wait_for_function("Canopy.parts.rigs.state")
    page.evaluate("""() => {
      const { rigs } = Canopy.parts;
      rigs.refresh = () => rigs.draw();
      const loading = {name: 'own', message: 'Reading …', share: 0.5};
      rigs.state = {...rigs.state, choice_disabled: '', failure: 'There is no rig.', loading};
      rigs.open();
    }""")
    assert page.is_visible(".cs-rig-form progress") and page.is_visible(".cs-rig-failure")


def open_conversation(page: Any) -> None:
    turns = (("system", "Be brief."), ("user", "Hi"), ("assistant", f"```\n{'x' * 300}\n```"))
    upload(page, "talk.jsonl", dumps(scripted_trace("joint", 32, turns=turns)))
    page.wait_for_selector(".cs-turn >> text=Turn 2")
    page.wait_for_selector(".cs-turn-before >> text=Be brief.")


@pytest.mark.long
@pytest.mark.parametrize("opened", [open_menus, lambda page: page.keyboard.press("?"), open_rigs, open_conversation])
def test_axe_finds_nothing_in_menus_sheets_and_conversations(watched: Watched, address: str, opened: Any) -> None:
    page = watched.open(f"{address}#mode=workbench&round=4")
    show_round(page, 3)
    opened(page)
    check_axe(page)


def check_tabs(page: Page, url: str, *tabs: str) -> None:
    page.goto(f"{url}#trace=merged&mode=lab&round=4")
    page.wait_for_function("window.Canopy && Canopy.laboratory && Canopy.laboratory.results.curves")
    page.evaluate("Canopy.laboratory.follow(0)")
    page.wait_for_function("Canopy.laboratory.results.table")
    for tab in tabs:
        page.evaluate(f"Canopy.laboratory.tabs.go('{tab}')")
        if tab == "speed":
            page.click(".lab-elsewhere > summary")
            page.wait_for_function("document.querySelectorAll('.lab-paste .lab-command').length > 2")
        if tab == "compare":
            page.wait_for_function("document.querySelectorAll('.lab-pair-tree:has([role=treeitem])').length === 2")
        check_axe(page, ("light",))


@pytest.mark.long
def test_axe_finds_nothing_in_the_tabs_of_the_lab(
        watched: Watched, address: str, browser: Browser, tmp_path: Path) -> None:
    check_tabs(watched.page, address, "speed", "acceptance", "compare")
    with served("-m", "tests.browser.serve", PORT, "0.05", "--results", str(tmp_path / "r.sqlite")) as url, visit(
            browser, url) as measured:
        check_tabs(measured.page, url, "load", "check")


def test_tab_goes_from_the_header_through_the_settings_to_the_stage(onlooker: Watched) -> None:
    page = onlooker.show("#mode=workbench&round=3")
    page.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("""() => {
            const part = document.activeElement.closest(
                ".cs-bar, #canopy-ask, #canopy-settings, .cs-area, .cs-timeline, .cs-stage");
            return part ? part.id || part.classList[0] : "";
        }"""))
    order = [part for part in dict.fromkeys(seen) if part]
    expected = ["cs-bar", "canopy-ask", "canopy-settings", "cs-stage", "cs-area", "cs-timeline"]
    assert order == expected[:len(order)] and len(order) >= 5
