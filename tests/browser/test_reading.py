"""What an accessibility checker would ask of our own elements: names, roles, contrast in both themes, order of focus,
live regions.

axe-core's own rules run in test_axe.py; here are those for elements that it cannot judge.
"""

import pytest

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE

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
CONTRAST = """(ours) => {
    const paper = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const parse = (colour) => {
        paper.clearRect(0, 0, 1, 1);
        paper.fillStyle = colour;
        paper.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = paper.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, under) => [0, 1, 2].map((part) => top[part] * top[3] + under[part] * (1 - top[3]));
    const ground = (element) => {
        const layers = [];
        for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
        return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
    };
    const luminance = (rgb) => rgb.map((part) => part / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
    const bad = new Set();
    for (const root of document.querySelectorAll(ours)) {
        const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const element = walker.currentNode.parentElement;
            const style = getComputedStyle(element);
            const seen = element.getClientRects().length && style.visibility !== "hidden";
            const leftOut = element.closest("svg, .is-future, [hidden], .cs-spoken");
            if (!walker.currentNode.textContent.trim() || leftOut || !seen) continue;
            const under = ground(element);
            const [one, two] = [luminance(over(parse(style.color), under)), luminance(under)];
            const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
            const size = parseFloat(style.fontSize);
            const large = size >= 24 || (size >= 18.5 && style.fontWeight >= 600);
            if (ratio < (large ? 3 : 4.5)) bad.add(`${element.className} ${ratio.toFixed(2)} ${style.color}`);
        }
    }
    return Array.from(bad);
}"""


@pytest.mark.parametrize("mode", ["story", "workbench"])
def test_names_roles_and_contrast(watched: Watched, address: str, mode: str) -> None:
    page = watched.open(f"{address}#trace=merged&mode={mode}&round=4")
    page.wait_for_function(f"{STAGE}.current === 3 && !Canopy.parts.frames.planned")
    page.wait_for_function("document.querySelectorAll('[data-panel=tree] [data-node]').length > 1")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(NAMES, OURS) == []
        assert page.evaluate(CONTRAST, OURS) == []
        page.keyboard.press("?")
        assert page.evaluate(CONTRAST, OURS) == []
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Open a recorded run").click()
        assert page.evaluate(NAMES, OURS) == [] and page.evaluate(CONTRAST, OURS) == []
        page.get_by_role("button", name="Open a recorded run").click()


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


def test_what_changes_is_spoken(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    live = page.locator(".cs-spoken[aria-live=polite]")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.cs-spoken').textContent.startsWith('Round 4: ')")
    assert "accepted, bonus" in (live.text_content() or "")
    assert page.locator(".cs-notice.is-error").get_attribute("role") == "alert"
    assert page.locator("html").get_attribute("lang")
