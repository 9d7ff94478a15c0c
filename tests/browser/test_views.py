"""Looking around: links, keys, linked hover, replay files, light and dark, small windows."""

from __future__ import annotations

from pathlib import Path

from engine.trace import tau
from explorer.share import replay_page
from explorer.view import run_view
from tests.browser.conftest import Watched
from tests.explorer.scripted import scripted_trace

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


def test_a_link_to_a_run_that_is_gone_says_so(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=nowhere&round=2")
    page.locator(".cs-notice.is-error", has_text="nowhere").wait_for(state="visible")
    assert page.evaluate(f"{STAGE}.rounds.length") > 0


def test_keys(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=1")
    for key, round_index in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", None), ("Home", 0)):
        page.keyboard.press(key)
        assert current(watched) == (page.evaluate(f"{STAGE}.rounds.length") - 1 if round_index is None else round_index)
    page.keyboard.press("ArrowUp")
    kept = page.evaluate(f"{STAGE}.round.keep")
    assert page.evaluate(f"{STAGE}.pinned") == kept[-1]
    page.keyboard.press("ArrowUp")
    assert page.evaluate(f"{STAGE}.pinned") == kept[-2]
    page.keyboard.press("ArrowDown")
    assert page.evaluate(f"{STAGE}.pinned") == kept[-1]
    page.keyboard.press("Escape")
    assert page.evaluate(f"{STAGE}.pinned") is None
    page.keyboard.press("]")
    assert page.evaluate("Canopy.parts.player.speed") == 2
    page.keyboard.press("Space")
    assert page.evaluate("Canopy.parts.player.playing")
    page.keyboard.press("Space")
    assert not page.evaluate("Canopy.parts.player.playing")
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible() and "play slower" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.locator(".cs-search input").is_visible()
    page.keyboard.type("books")
    page.keyboard.press("Escape")
    assert page.locator(".cs-search").is_hidden()


def test_typing_a_prompt_is_no_command(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    page.click("#canopy-prompt textarea")
    page.keyboard.press("Control+End")
    page.keyboard.type(" [/? f")
    page.keyboard.press("ArrowLeft")
    assert current(watched) == 2 and not page.evaluate("Canopy.parts.player.playing")
    assert page.input_value("#canopy-prompt textarea").endswith(" [/? f")


def test_hover_is_linked_and_a_click_pins(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    page.evaluate("""() => {
        window.seen = [];
        for (const [name, { panel }] of Canopy.parts.frames.made) {
            const select = panel.select.bind(panel);
            panel.select = (chosen) => { seen.push([name, chosen && chosen.node]); select(chosen); };
        }
    }""")
    token = page.locator(".cs-part[data-round='2'] .cs-token").nth(2)
    token.hover()
    node = int(token.get_attribute("data-node") or -1)
    seen = page.evaluate("seen")
    assert {name for name, chosen in seen if chosen == node} == {"tree", "marginals", "mask", "verifier", "cache"}
    assert "is-lit" in (token.get_attribute("class") or "")
    token.click()
    assert page.evaluate(f"[{STAGE}.selection.node, {STAGE}.selection.pinned]") == [node, True]
    page.locator(".cs-part[data-round='5'] .cs-token").first.click()
    assert (current(watched), page.evaluate(f"{STAGE}.pinned")) == (5, 0)


def test_the_timeline_scrubs_in_the_browser_alone(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.wait_for_timeout(300)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    box = page.locator(".cs-bars").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 40, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 30, steps=6)
    reached = current(watched)
    page.mouse.up()
    assert reached > 3
    assert [url for url in asked if "heartbeat" not in url] == []


def test_scrubbing_keeps_its_frames(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&trace=plain")
    page.wait_for_function(f"{STAGE}.value.run === 'plain'")
    took = page.evaluate("""async () => {
        const { frames, player, stage } = Canopy.parts;
        const times = [];
        for (let index = 0; index < 60; index++) {
            player.go(index % stage.rounds.length, {});
            const began = performance.now();
            frames.draw();
            times.push(performance.now() - began);
            await new Promise(requestAnimationFrame);
        }
        return times.sort((one, other) => one - other)[30];
    }""")
    print(f"scrubbing: all panels drawn in {took:.1f} ms, median of 60 rounds")
    assert took < 1000 / 30


def test_a_panel_fills_the_window_and_returns(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench&round=3")
    frame = page.locator("[data-panel=mask]")
    before = frame.bounding_box()
    frame.locator(".cs-full").click()
    large = frame.bounding_box()
    assert before and large and large["width"] > 1300 and large["height"] > 800
    page.keyboard.press("Escape")
    page.wait_for_timeout(50)
    assert frame.bounding_box() == before


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


def test_a_replay_file_opens_from_disk(watched: Watched, address: str, tmp_path: Path) -> None:
    trace = scripted_trace("merged", 32)
    file = tmp_path / "replay.html"
    file.write_text(replay_page(run_view("run", (trace.header, *trace.entries, trace.end))), "utf8")
    page = watched.page
    page.goto(file.as_uri())
    page.wait_for_selector(".cs-stage")
    page.wait_for_function(f"{STAGE}.rounds.length === {len(trace.entries)}")
    page.keyboard.press("End")
    assert page.locator(".cs-part").count() == len(trace.entries)
    watched.foreign[:] = [url for url in watched.foreign if not url.startswith("file://")]
