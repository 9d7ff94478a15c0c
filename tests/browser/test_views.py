"""Looking around: links, keys, linked hover, replay files, light and dark, small windows."""

from __future__ import annotations

import pytest

from engine.trace import tau
from tests.browser.conftest import Watched
from tests.explorer.scripted import scripted_trace

pytestmark = pytest.mark.long

STAGE = "Canopy.parts.stage"


def current(watched: Watched) -> int:
    return int(watched.page.evaluate(f"{STAGE}.current"))


def test_it_opens_on_a_recording_in_the_story(watched: Watched, address: str) -> None:
    page = watched.open(address)
    trace = scripted_trace("joint", 64)
    assert page.evaluate("document.body.dataset.canopyMode") == "story"
    assert page.locator(".cs-badge").inner_text().strip().endswith("recorded 2026-11-20")
    assert page.evaluate(f"{STAGE}.rounds.length") == len(trace.entries)
    page.keyboard.press("End")
    page.wait_for_function(f"{STAGE}.current === {len(trace.entries) - 1}")
    figures = page.locator(".cs-metric-tau .cs-number")
    assert figures.inner_text() == f"{tau([entry.round for entry in trace.entries]):.2f}"
    assert "root included" in page.locator(".cs-metric-tau").inner_text()
    assert page.locator(".cs-metric-gain").is_visible()


def test_it_moves_by_itself_unless_asked_for_stillness(watched: Watched, address: str) -> None:
    watched.open(address)
    assert not watched.page.evaluate("Canopy.parts.player.playing")
    watched.page.emulate_media(reduced_motion="no-preference")
    watched.page.goto("about:blank")
    watched.page.goto(address)
    watched.page.wait_for_function(f"window.Canopy && Canopy.parts && {STAGE}.current >= 1")


def test_reload_restores_the_view_and_back_works(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=merged&round=4&node=5&mode=workbench&method=merged&budget=128")
    page.wait_for_function(f"{STAGE}.value.run === 'merged'")
    page.wait_for_function(f"{STAGE}.current === 3 && {STAGE}.pinned === 5")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '128'")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'merged'")
    page.evaluate("Canopy.parts.player.go(6, {push: true})")
    page.wait_for_function("location.hash.includes('round=7')")
    page.reload()
    page.wait_for_function(f"window.Canopy && Canopy.parts && {STAGE}.current === 6 && {STAGE}.value.run === 'merged'")
    page.go_back()
    page.wait_for_function(f"{STAGE}.current === 3")


def test_typing_a_prompt_is_no_command(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    page.click("#canopy-prompt textarea")
    page.keyboard.press("Control+End")
    page.keyboard.type(" [/? f")
    page.keyboard.press("ArrowLeft")
    assert current(watched) == 2 and not page.evaluate("Canopy.parts.player.playing")
    assert page.input_value("#canopy-prompt textarea").endswith(" [/? f")


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


def test_nothing_overflows(watched: Watched, address: str) -> None:
    for width, height in ((1440, 900), (1280, 720), (1920, 1080), (390, 844)):
        watched.page.set_viewport_size({"width": width, "height": height})
        page = watched.open(f"{address}#mode=workbench&round=3")
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width > 900:
            assert page.evaluate("document.documentElement.scrollHeight") <= height + 1
