"""What an accessibility checker would ask of our own elements: names and roles, also of elements that axe cannot judge,
order of focus, live regions."""

import pytest

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE
from tests.browser.test_axe import judge_themes

pytestmark = pytest.mark.long

OURS = ".cs-bar, .cs-stage, .cs-sheet, .cs-tour"
NAMES = """(ours) => {
    const bad = [];
    const shown = (element) => element.getClientRects().length > 0;
    const name = (element) => (element.getAttribute("aria-label") || element.textContent || element.title || "").trim();
    for (const root of document.querySelectorAll(ours)) {
        for (const element of root.querySelectorAll("button, input, [tabindex], [role]")) {
            const role = element.getAttribute("role");
            if (!shown(element) || ["presentation", "listitem"].includes(role)) continue;
            if (!name(element)) bad.push(`no name: ${element.outerHTML.slice(0, 120)}`);
            if (Number(element.getAttribute("tabindex")) > 0) bad.push(`forced order: ${element.className}`);
            if (role === "slider" && !["valuemin", "valuemax", "valuenow", "valuetext"]
                .every((part) => element.getAttribute(`aria-${part}`))) bad.push("a slider without values");
            if (role === "menuitem" && !element.closest("[role=menu]")) bad.push("a menu item outside a menu");
            if (role === "treeitem" && !(element.closest("[role=tree]") && element.getAttribute("aria-level")))
                bad.push("a tree item without a tree or level");
        }
        for (const image of root.querySelectorAll("canvas, svg")) {
            const hidden = image.closest("[aria-hidden=true]") || !shown(image);
            if (!hidden && !image.getAttribute("role")) bad.push(`no role: ${image.outerHTML.slice(0, 90)}`);
        }
    }
    const ids = Array.from(document.querySelectorAll("[id^=canopy], [id^=cs-]"), (element) => element.id);
    if (new Set(ids).size !== ids.length) bad.push("an id twice");
    return bad;
}"""

@pytest.mark.parametrize("mode", ["story", "workbench"])
def test_names_and_roles_also_of_menus_and_sheets(watched: Watched, address: str, mode: str) -> None:
    page = watched.open(f"{address}#trace=merged&mode={mode}&round=4")
    page.wait_for_function(f"{STAGE}.current === 3 && !Canopy.parts.frames.planned")
    page.wait_for_function("document.querySelectorAll('[data-panel=tree] [data-node]').length > 1")
    page.keyboard.press("?")
    judge_themes(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Runs").click()
    page.get_by_role("button", name="Save or share this run").click()
    assert page.evaluate(NAMES, OURS) == []
    judge_themes(page)


def test_focus_goes_from_the_head_through_the_settings_to_the_stage(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    page.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("""() => {
            const at = document.activeElement;
            const part = at.closest(".cs-bar, #canopy-ask, #canopy-settings, .cs-area, .cs-timeline, .cs-stage");
            return part ? part.id || part.classList[0] : "";
        }"""))
    order = [part for place, part in enumerate(seen) if part and part not in seen[:place]]
    expected = ["cs-bar", "canopy-ask", "canopy-settings", "cs-stage", "cs-area", "cs-timeline"]
    assert order == expected[:len(order)] and len(order) >= 5
