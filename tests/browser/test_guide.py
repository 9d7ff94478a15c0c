"""Finding one's way: every key, the page that documents them, the tour, captions, legends and definitions."""

import pytest

from engine.trace import dumps
from tests.browser.conftest import READY, Watched
from tests.browser.doing import STAGE, upload
from tests.explorer.scripted import scripted_trace

pytestmark = pytest.mark.long

CAMERA = "Canopy.parts.frames.entries.get('tree').panel.camera"


def test_keys_that_walk(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=1")
    last = page.evaluate(f"{STAGE}.rounds.length") - 1
    for key, index in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last), ("ArrowRight", last),
                       ("Home", 0), ("ArrowLeft", 0)):
        page.keyboard.press(key)
        assert page.evaluate(f"{STAGE}.current") == index
    keep = page.evaluate(f"{STAGE}.round.keep")
    for key, node in (("ArrowUp", keep[-1]), ("ArrowUp", keep[-2]), ("ArrowDown", keep[-1]), ("Escape", None),
                      ("ArrowDown", 0), ("ArrowUp", 0), ("ArrowDown", keep[1])):
        page.keyboard.press(key)
        assert page.evaluate(f"{STAGE}.pinned") == node
    page.wait_for_function("document.querySelector('.cs-spoken').textContent.startsWith('Round 1: ')")
    assert "accepted, bonus" in (page.locator(".cs-spoken[aria-live=polite]").text_content() or "")


def test_keys_that_play_fit_search_and_help(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=1")
    for key, speed in (("]", 2), ("]", 4), ("[", 2), ("[", 1), ("[", 0.5), ("]", 1)):
        page.keyboard.press(key)
        assert page.evaluate("Canopy.parts.player.speed") == speed
        assert page.locator(".cs-speed").inner_text() == f"{speed:g}×"
    for playing in (True, False):
        page.keyboard.press("Space")
        assert page.evaluate("Canopy.parts.player.playing") is playing
    page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    assert page.evaluate(f"{CAMERA}.held")
    page.keyboard.press("f")
    assert not page.evaluate(f"{CAMERA}.held")
    page.keyboard.press("/")
    page.keyboard.type("books")
    count = page.locator(".cs-search span").inner_text()
    assert count.startswith("1 of ") and page.evaluate(f"{STAGE}.selection.node") is not None
    page.keyboard.press("Enter")
    assert page.locator(".cs-search span").inner_text().startswith(("2 of ", "1 of 1"))
    page.keyboard.press("Escape")
    page.locator(".cs-search").wait_for(state="hidden")
    page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keys and terms")
    sheet.wait_for(state="visible")
    shown = sheet.locator("kbd").all_inner_texts()
    keys = page.evaluate("Canopy.parts.keys.table.map((entry) => entry.shown)")
    assert shown == keys == ["Space", "←", "→", "Home", "End", "↑", "↓", "[", "]", "f", "/", "c", "?", "Esc"]
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    sheet.wait_for(state="hidden")


def test_typing_a_prompt_is_no_command(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    page.click("#canopy-prompt textarea")
    page.keyboard.press("Control+End")
    page.keyboard.type(" [/? f")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(f"{STAGE}.current") == 2 and not page.evaluate("Canopy.parts.player.playing")
    assert page.input_value("#canopy-prompt textarea").endswith(" [/? f")


def test_the_tour_has_an_exercise_a_step_and_remembers_where_it_was_left(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.get_by_role("button", name="A tour in nine steps").click()
    card, seen = page.get_by_role("dialog", name="Tour"), []
    for step in range(1, 10):
        assert card.locator("footer span").inner_text() == f"{step} of 9"
        seen.append(card.locator("h2").inner_text())
        assert card.locator(".cs-exercise").inner_text().startswith("Try it: ")
        assert page.locator(".cs-toured").is_visible()
        page.wait_for_timeout(40)
        box = card.bounding_box()
        assert box["x"] >= 0 and box["y"] >= 0 and box["x"] + box["width"] <= 1440 and box["y"] + box["height"] <= 900
        if step == 8:
            panel = page.locator(".cs-toured").bounding_box()
            assert (box["x"] + box["width"] <= panel["x"] or panel["x"] + panel["width"] <= box["x"]
                    or box["y"] + box["height"] <= panel["y"] or panel["y"] + panel["height"] <= box["y"]), "it is free"
            assert page.locator(".cs-toured").get_attribute("data-panel") == "budget", "which one is asked to drag"
        if step == 4:
            page.keyboard.press("Escape")
            assert card.is_hidden() and page.locator(".cs-toured").count() == 0
            page.reload()
            page.wait_for_function(READY)
            page.get_by_role("button", name="A tour in nine steps").click()
            assert card.locator("footer span").inner_text() == "4 of 9"
        card.get_by_role("button", name="Next step").click()
    assert page.locator(".lab-sweep").is_visible()  # it ends in the lab
    assert card.is_hidden() and len(set(seen)) == 9
    page.get_by_role("button", name="A tour in nine steps").click()
    assert card.locator("footer span").inner_text() == "1 of 9"


def test_story_and_workbench_are_the_same_run(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#round=3")
    headline, kept = page.locator(".cs-headline"), page.evaluate(f"{STAGE}.round.keep.length")
    assert headline.inner_text().split() == f"One pass of the big model just wrote {kept} tokens.".split()
    assert page.locator("[data-panel=mask]").is_hidden() and page.locator("#canopy-settings").is_hidden()
    page.get_by_role("button", name="All panels and all settings").click()
    assert page.locator("[data-panel=mask]").is_visible() and headline.is_hidden()
    assert page.evaluate(f"{STAGE}.current") == 2
    page.wait_for_function("location.hash.includes('mode=workbench')")
    page.go_back()
    page.wait_for_function(f"{STAGE}.mode === 'story'")


def test_an_opened_run_fills_every_setting(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    upload(page, "each.jsonl", dumps(scripted_trace("merged", 20, split="each", max_tokens=99)))
    page.wait_for_function("document.querySelector('#canopy-split input').value === 'full for each'")
    page.click("#canopy-more button.label-wrap")
    page.wait_for_function("document.querySelector('#canopy-max-tokens input')?.value === '99'")


def test_dividers_drag(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    width = "document.querySelector('[data-panel=marginals]').getBoundingClientRect().width"
    before = page.evaluate(width)
    divider = page.locator(".cs-lower .cs-divider").first
    box = divider.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 84, box["y"] + 40, steps=4)
    page.mouse.up()
    wide = page.evaluate(width)
    assert abs(wide - before - 80) < 12
    divider.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(width) < wide - 10
    page.reload()
    page.wait_for_function(READY)
    assert page.evaluate(width) > before + 20
