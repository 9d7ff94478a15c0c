"""Navigation: every key, typing, the tour, and what opening a run changes."""

import pytest

from engine.trace import dumps
from tests.browser.actions import STAGE, upload
from tests.browser.conftest import READY, Watched
from tests.explorer.scripted import scripted_trace

pytestmark = pytest.mark.long

NEEDED = {  # step of the tour: the elements that its task needs
    3: (".cs-frame-tree", ".cs-search"), 7: (".cs-frame-tree", "[data-panel=mask]", "[data-panel=cache]"),
    8: (".cs-frame-budget", ".cs-frame-tree")}
CAMERA = "Canopy.parts.frames.entries.get('tree').panel.camera"


def test_keys_move_between_rounds_and_nodes(onlooker: Watched) -> None:
    page = onlooker.show("#mode=workbench&round=1")
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
    page.wait_for_function("document.querySelector('[aria-live=polite].cs-spoken').textContent.includes('accepted')")


def test_keys_play_fit_search_and_list_all_keys(onlooker: Watched) -> None:
    page = onlooker.show("#mode=workbench&round=1")
    for key, speed in (("]", 2), ("]", 4), ("[", 2), ("[", 1), ("[", 0.5), ("]", 1)):
        page.keyboard.press(key)
        assert page.evaluate("Canopy.parts.player.speed") == speed
    for playing in (True, False):
        page.keyboard.press("Space")
        assert page.evaluate("Canopy.parts.player.playing") is playing
    page.locator("[data-panel=tree]").get_by_role("button", name="Zoom in").click()
    assert page.evaluate(f"{CAMERA}.held")
    page.keyboard.press("f")
    assert not page.evaluate(f"{CAMERA}.held")
    page.keyboard.press("/")
    page.keyboard.type("books")
    count = page.locator(".cs-search span")
    total = page.evaluate(f"""{STAGE}.rounds.flatMap((round) => Array.from(round.tokens, (id) => round.text(id)))
        .filter((text) => text.includes("books")).length""")
    assert count.inner_text() == f"{total} found" and total > 1, "in all rounds"
    for place in (1, 2):
        page.keyboard.press("Enter")
        assert count.inner_text() == f"{place} of {total}"
        assert "books" in page.evaluate(f"{STAGE}.round.text({STAGE}.round.tokens[{STAGE}.pinned])")
    page.wait_for_function("document.querySelector('.cs-bars .cs-found').getAttribute('d')")
    page.keyboard.press("Escape")
    assert count.inner_text() == "" and page.locator("[data-panel=tree] .cp-found").count() == 0
    page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keys and terms")
    sheet.wait_for(state="visible")
    assert sheet.locator("kbd").all_inner_texts() == page.evaluate("Canopy.parts.keys.table.map(({ shown }) => shown)")
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    sheet.wait_for(state="hidden")


def test_typing_a_prompt_triggers_no_keys_of_the_stage(onlooker: Watched) -> None:
    page = onlooker.show("#mode=workbench&round=3")
    page.click("#canopy-prompt textarea")
    page.keyboard.press("Control+End")
    page.keyboard.type(" [/? f")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(f"{STAGE}.current") == 2 and not page.evaluate("Canopy.parts.player.playing")
    assert page.input_value("#canopy-prompt textarea").endswith(" [/? f")


def test_the_tour_resumes_where_it_was_left_and_covers_nothing(watched: Watched, address: str) -> None:
    watched.page.set_viewport_size({"width": 1280, "height": 720})
    page = watched.open(address)
    page.get_by_role("button", name="A tour in nine steps").click()
    card = page.get_by_role("dialog", name="Tour")
    for step in range(1, 10):
        assert card.locator("footer span").inner_text() == f"{step} of 9"
        assert page.locator(".cs-toured").is_visible()
        page.wait_for_timeout(40)
        box = card.bounding_box()
        assert box["x"] >= 0 and box["y"] >= 0 and box["x"] + box["width"] <= 1280 and box["y"] + box["height"] <= 720
        for part in NEEDED.get(step, ()):
            panel = page.locator(part).bounding_box()
            assert (box["x"] + box["width"] <= panel["x"] or panel["x"] + panel["width"] <= box["x"]
                    or box["y"] + box["height"] <= panel["y"] or panel["y"] + panel["height"] <= box["y"])
        if step == 2:
            assert page.locator(".cs-text [data-round='1']:visible").count(), "the text is there to be tapped"
        if step == 4:
            page.keyboard.press("Escape")
            assert card.is_hidden()
            page.reload()
            page.wait_for_function(READY)
            page.get_by_role("button", name="A tour in nine steps").click()
        card.get_by_role("button", name="Next step").click()
    assert page.locator(".lab-sweep").is_visible() and card.is_hidden()


def test_on_a_phone_the_tours_card_is_below_what_it_explains(watched: Watched, address: str) -> None:
    watched.page.set_viewport_size({"width": 390, "height": 844})
    page = watched.open(address)
    page.get_by_role("button", name="A tour in nine steps").click()
    card = page.get_by_role("dialog", name="Tour")
    for step in range(1, 9):
        page.wait_for_function(f"document.querySelector('.cs-tour footer span').textContent === '{step} of 9'"
                               " && Canopy.parts.frames.settled")
        part, box = page.locator(".cs-toured").bounding_box(), card.bounding_box()
        assert part["y"] >= 0 and part["y"] + part["height"] <= box["y"] and box["y"] + box["height"] <= 844
        assert step == 1 or page.locator(".cs-toured .cs-body").bounding_box()["height"] > 100, "the panel is open"
        card.get_by_role("button", name="Next step").click()


def test_the_tour_does_not_cover_the_labs_chart_in_a_low_window(watched: Watched, address: str) -> None:
    watched.page.set_viewport_size({"width": 1280, "height": 720})
    page = watched.open(address)
    page.evaluate("Canopy.parts.tour.go(8)")
    page.locator(".lab-plot-curves").wait_for(state="visible")
    chart, box = page.locator(".lab-plot-curves").bounding_box(), page.locator(".cs-tour").bounding_box()
    assert box["x"] >= chart["x"] + chart["width"] and box["x"] + box["width"] <= 1280


def test_story_and_workbench_show_the_same_round_of_the_same_run(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=story&round=3")
    figures = page.locator(".cs-metric-tau .cs-number, .cs-metric-rounds .cs-number")
    story = figures.all_inner_texts()
    assert story[1] == str(page.evaluate(f"{STAGE}.rounds.length"))
    assert page.locator("[data-panel=mask]").is_hidden() and page.locator("#canopy-settings").is_hidden()
    page.get_by_role("button", name="All panels and all settings").click()
    assert page.locator("[data-panel=mask]").is_visible() and page.locator(".cs-headline").is_hidden()
    assert figures.all_inner_texts() == story and page.evaluate(f"{STAGE}.current") == 2
    page.wait_for_function("location.hash.includes('mode=workbench')")
    page.go_back()
    page.wait_for_function(f"{STAGE}.mode === 'story'")


def test_opening_a_run_fills_every_setting(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    upload(page, "each.jsonl", dumps(scripted_trace("merged", 20, split="each", max_tokens=99)))
    page.wait_for_function("document.querySelector('#canopy-split input').value === 'full for each'")
    page.wait_for_function("document.querySelector('#canopy-pace input').value === 'in full'")
    page.click("#canopy-more button.label-wrap")
    page.wait_for_function("document.querySelector('#canopy-max-tokens input')?.value === '99'")
