"""Nothing is cut off, covered or left alone on a line of its own, on a phone, a laptop and a desktop."""

from itertools import product
from typing import Any

import pytest

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE, go

PHONE, TABLET, LAPTOP, DESKTOP = (390, 844), (768, 1024), (1280, 720), (1440, 900)
TITLE = "Routing: the better head changes within a text"


def sized(watched: Watched, size: tuple[int, int], url: str) -> Any:
    watched.page.set_viewport_size({"width": size[0], "height": size[1]})
    return watched.open(url)


@pytest.mark.parametrize(("size", "mode"), [(PHONE, "story"), (LAPTOP, "workbench")])
def test_the_caret_stands_beside_the_words_of_a_preset(
        onlooker: Watched, size: tuple[int, int], mode: str) -> None:
    page = onlooker.show(f"#mode={mode}")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate("""(title) => {
        const field = document.querySelector("#canopy-preset input");
        field.value = title;
    }""", TITLE)
    for name in ("preset", *(["pace", "method"] if mode == "workbench" else [])):
        end, caret, overflow = page.evaluate("""(name) => {
            const part = (selector) => document.querySelector(`#canopy-${name} ${selector}`);
            const [field, caret] = [part("input"), part(".icon-wrap")];
            const { paddingRight, textOverflow } = getComputedStyle(field);
            return [field.getBoundingClientRect().right - parseFloat(paddingRight), caret.getBoundingClientRect().left,
                    textOverflow];
        }""", name)
        assert end <= caret and overflow == "ellipsis", name


def test_the_signs_of_the_arithmetic_stand_in_the_window(onlooker: Watched) -> None:
    page = onlooker.show("#mode=story")
    go(page, page.evaluate(f"{STAGE}.rounds.length - 1"))
    for (width, height), (name, sign) in product((PHONE, TABLET, LAPTOP, DESKTOP), (("cost", "÷"), ("gain", "="))):
        page.set_viewport_size({"width": width, "height": height})
        shown, left, number = page.evaluate("""(name) => {
            const item = document.querySelector(`.cs-metric-${name}`);
            const { content, left, width } = getComputedStyle(item, "::before");
            const start = item.getBoundingClientRect().left + parseFloat(left);
            const number = item.querySelector(".cs-number").getBoundingClientRect().left;
            return [content, start, number - start - parseFloat(width)];
        }""", name)
        assert sign in shown and left >= 8 and number > 0


def test_no_button_and_no_menu_of_the_bar_leaves_a_phone(watched: Watched, address: str) -> None:
    page = sized(watched, PHONE, address)
    page.wait_for_function("Canopy.parts.rigs.state")
    for rig in ("demo rig", "a-rig-with-a-long-name, loading …"):
        tops = page.evaluate("""(rig) => {
            document.querySelector(".cs-rig").textContent = `Rig: ${rig}`;
            const tools = Array.from(document.querySelectorAll(".cs-bar-tools button"));
            return tools.map((tool) => Math.round(tool.getBoundingClientRect().top));
        }""", rig)
        assert len(tops) > 5 and len(set(tops)) == 1, "none stands alone on a line"
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    for menu in ("Save or share this run",):
        page.get_by_role("button", name=menu).click()
        box = page.locator(".cs-menu-list:popover-open").bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= PHONE[0]


def test_the_header_names_the_machine_in_full(watched: Watched, address: str) -> None:
    page, hardware = sized(watched, LAPTOP, address), "Intel(R) Xeon(R) Processor, 2 cores"
    words, cut = page.evaluate(f"""(hardware) => {{
        Object.assign({STAGE}.header, {{ hardware, dtype: "bfloat16", title: "{TITLE}" }});
        {STAGE}.tell("value", {{ other: false }});
        const title = document.querySelector(".cs-run-title");
        return [title.innerText, Array.from(title.children).some((line) => line.scrollWidth > line.clientWidth)];
    }}""", hardware)
    assert not cut and "Intel Xeon, 2 cores, bfloat16" in words
    assert hardware in page.locator(".cs-run-title").get_attribute("title")


def test_a_notice_moves_nothing_in_the_workbench(onlooker: Watched) -> None:
    page = onlooker.show("#trace=merged&mode=workbench&round=3")
    places = "Array.from(document.querySelectorAll('.cs-metrics, .cs-frame, .cs-timeline'), (part) => part.offsetTop)"
    before = page.evaluate(places)
    page.evaluate("Canopy.parts.notices.fail('The prompt is empty: write something.')")
    assert page.locator(".cs-notice:visible").count() == 1 and page.evaluate(places) == before
    page.keyboard.press("Escape")
    assert page.evaluate(places) == before


def test_a_phone_has_what_one_came_for_first_and_the_rest_one_tap_away(onlooker: Watched) -> None:
    page = onlooker.show("#trace=merged&mode=workbench&round=3")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert page.evaluate("document.documentElement.scrollHeight") <= 2000
    tops = [page.locator(part).bounding_box()["y"] for part in (
        "[data-panel=text]", "[data-panel=tree]", "[data-panel=budget]", ".cs-timeline", "[data-panel=marginals]")]
    assert tops == sorted(tops)
    steps = page.locator("[data-panel=verifier] .cp-step")
    assert not steps.first.is_visible()
    page.mouse.wheel(0, 2000)
    page.wait_for_function("window.scrollY > 400")
    head = page.locator("[data-panel=verifier] .cs-caption").bounding_box()
    page.mouse.click(head["x"] + 20, head["y"] + 8)
    assert steps.first.is_visible() and page.locator(".cs-timeline").bounding_box()["y"] < PHONE[1]
    page.keyboard.press("Escape")


@pytest.mark.long
def test_light_and_dark_follow_the_system_and_the_switch(watched: Watched, address: str) -> None:
    page = watched.page
    page.emulate_media(color_scheme="dark")
    watched.open(address)
    ground = "getComputedStyle(document.querySelector('.cs-frame')).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light or dark").click()
    light = page.evaluate(ground)
    assert dark == "rgb(21, 28, 37)" and light == "rgb(255, 255, 255)"
    page.reload()
    page.wait_for_selector(".cs-frame")
    page.wait_for_function(f"{ground} === 'rgb(255, 255, 255)'")


@pytest.mark.long
def test_nothing_overflows(watched: Watched, address: str) -> None:
    for width, height in (DESKTOP, LAPTOP, (1920, 1080), PHONE):
        page = sized(watched, (width, height), f"{address}#mode=workbench&round=3")
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width > 900:
            assert page.evaluate("document.documentElement.scrollHeight") <= height + 1
