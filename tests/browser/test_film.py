"""The film plays by itself with the recording's figures and can be left; a live run ends on its card."""

from typing import Any

import pytest

from tests.browser.actions import RUN, STAGE, ask, finish, press_run
from tests.browser.conftest import Watched

SCENE = f"{STAGE}.scene"
SCENES = ["plain", "guess", "verify", "race", "same", "card"]


@pytest.fixture
def animated(watched: Watched, address: str) -> Any:
    """Provide the page of a person who did not ask for reduced motion."""
    watched.page.emulate_media(reduced_motion="no-preference")
    return watched.open(address)


def test_scenes_wait_for_a_key_if_motion_is_reduced_and_show_the_recordings_figures(
        watched: Watched, address: str) -> None:
    page = watched.open(address)
    lengths, tracks, against, nodes = page.evaluate(f"""[{STAGE}.rounds.map((made) => made.keep.length),
        {STAGE}.comparison.tracks, {STAGE}.speedup, {STAGE}.rounds.map((made) => made.n - 1)]""")
    plain, best = tracks["texts"], page.evaluate("Canopy.parts.film.shownRound")
    flags, headlines = page.locator(".cs-track-flag"), []
    page.set_viewport_size({"width": 390, "height": 844})
    for scene in SCENES:
        page.wait_for_function(f"{SCENE} === '{scene}' && Canopy.parts.frames.settled")
        headlines.append(page.locator(".cs-headline").inner_text())
        height = page.evaluate("document.documentElement.scrollHeight")
        assert height <= (2000 if scene == "card" else 844), f"{scene} fits a phone's screen; the last frame scrolls"
        picture = page.locator(".cs-duel" if page.locator(".cs-duel").is_visible() else ".cs-frame-tree").bounding_box()
        assert picture and picture["height"] > 150, f"{scene} has room for its picture"
        if scene == "plain":
            before, beats = sum(lengths[:best]), page.locator(".is-beat").all_text_contents()
            assert beats == plain[before:before + 3], "the rest of the text is there already"
            assert page.locator(".cs-track-text").first.text_content() == "".join(plain[:before + 3])
        if scene == "race":
            for flag, figures in zip(flags.all_inner_texts(), (
                    (len(plain), tracks["ends"][1], against["plain_speed"]),
                    (len(lengths), tracks["ends"][0], against["speed"])), strict=True):
                assert all(str(figure) in flag for figure in figures)
        if scene == "guess":
            path = page.locator("[data-panel=tree] .cp-label.is-path")
            assert path.count() == 1, "only the root of the path is shown"
            labelled = page.evaluate(f"""{STAGE}.round.keep.filter((node) =>
                document.querySelector(`[data-panel=tree] [data-label="${{node}}"]`))""")
            assert labelled, "its guesses are labelled like all others"
        page.keyboard.press("ArrowRight")
    assert str(nodes[best]) in headlines[1] and str(lengths[best]) in headlines[2]
    assert f"{len(lengths)} passes instead of {len(plain)}" in headlines[4]
    assert headlines[5].startswith(f"{sum(lengths)} tokens in {len(lengths)} passes, ")
    tops = [page.locator(part).bounding_box()["y"] for part in (
        ".cs-frame-tree", ".cs-frame-text", ".cs-frame-budget", ".cs-metrics", ".cs-timeline")]
    assert tops == sorted(tops)
    answer = page.locator(".cs-text .cs-output").first
    assert answer.evaluate("(text) => parseFloat(getComputedStyle(text).fontSize)") <= 15, "no larger than the page"
    assert page.evaluate("(({ scrollHeight, clientHeight }) => scrollHeight <= clientHeight + 1)"
                         "(document.querySelector('.cs-text'))"), "the answer is not cut off"
    page.evaluate("document.querySelector('.cs-text').append('A long answer. '.repeat(400))")
    assert page.evaluate("document.documentElement.scrollHeight") <= 2000, "a longer one scrolls in its panel"
    page.set_viewport_size({"width": 1280, "height": 720})
    assert len({bar.bounding_box()["x"] for bar in page.locator(".cs-ends i").all()}) == 1, "lengths can be compared"
    page.get_by_role("button", name="Your turn").click()
    assert page.evaluate("document.activeElement.closest('#canopy-prompt') !== null")


@pytest.mark.parametrize("query", ["", "?present"])
def test_race_and_answer_fill_their_panels_and_are_not_cut_off(watched: Watched, address: str, query: str) -> None:
    page = watched.open(f"{address}{query}")
    page.set_viewport_size({"width": 1280, "height": 720})
    for scene, boxes in (("race", ".cs-track-text"), ("card", ".cs-text")):
        page.evaluate(f"Canopy.parts.film.go('{scene}')")
        page.wait_for_function(f"{SCENE} === '{scene}' && Canopy.parts.frames.settled")
        page.wait_for_function("""(boxes) => Array.from(document.querySelectorAll(boxes)).every((box) => {
            const bottom = (text) => text.getBoundingClientRect().bottom;
            const low = Math.max(...Array.from(box.querySelectorAll(".cs-token, .is-plain span"), bottom));
            const { top, height } = box.getBoundingClientRect();
            return box.scrollHeight <= box.clientHeight && low - top > 0.6 * height;
        })""", arg=boxes)
    assert page.locator(".cs-frame-budget").is_visible(), "the answer leaves the budget strip its room"


def test_the_race_can_be_read_on_a_phone(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=story")
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("Canopy.parts.film.go('race')")
    sizes = page.evaluate("""Array.from(document.querySelectorAll(".cs-duel :is(header, header *, .cs-track-text)"),
        (part) => parseFloat(getComputedStyle(part).fontSize))""")
    assert min(sizes) >= 13


def test_the_film_can_be_left_by_key_and_button_and_played_again(animated: Any) -> None:
    assert animated.evaluate(SCENE) in SCENES[:-1]
    animated.keyboard.press("Escape")
    assert animated.evaluate(SCENE) == "card"
    animated.evaluate(f"""() => {{
        window.seen = [];
        {STAGE}.on("scene", () => seen.push({SCENE}));
    }}""")
    animated.get_by_role("button", name="Replay").click()
    assert animated.evaluate("seen[0]") == "plain"
    animated.evaluate("Canopy.parts.film.go('race')")
    assert animated.locator(".cs-track-text span:not(.is-pending)").count() > 1, "the race opens with the first words"
    animated.get_by_role("button", name="Skip").click()
    assert animated.evaluate(SCENE) == "card"
    animated.keyboard.press("Home")
    assert animated.evaluate(SCENE) == "" and animated.locator(".cs-frame-tree").is_visible()
    animated.evaluate("""() => {
        Canopy.parts.player.changeSpeed(4);
        Canopy.parts.recordings.open("merged", {});
    }""")
    animated.wait_for_function(f"{RUN} === 'merged' && {SCENE} === 'card'")
    assert animated.evaluate("seen[seen.lastIndexOf('') + 1]") == "card", "its rounds were just seen"


def test_a_live_run_is_shown_round_by_round_and_ends_on_its_card(animated: Any) -> None:
    animated.evaluate(f"""() => {{
        window.seen = [];
        {STAGE}.on("round", () => {STAGE}.recorded || seen.push({STAGE}.current));
        {STAGE}.on("scene", () => seen.push({SCENE}));
    }}""")
    ask(animated, "Tell me how it ends")
    press_run(animated)
    finish(animated)
    animated.wait_for_function(f"{SCENE} === 'card' && {STAGE}.speedup")
    seen, lengths = animated.evaluate(f"[seen, {STAGE}.rounds.map((made) => made.keep.length)]")
    shown = [what for what in dict.fromkeys(seen) if what != ""]
    assert shown == [*range(len(lengths)), "card"], "every round is shown exactly once"
    assert animated.evaluate(f"{STAGE}.current === Canopy.parts.film.shownRound")
    assert animated.locator(".cs-headline").inner_text().startswith(f"{sum(lengths)} tokens in {len(lengths)} passes")
    animated.get_by_role("button", name="Tune its budget").click()
    animated.wait_for_function(f"{STAGE}.mode === 'workbench' && {SCENE} === ''")


def test_the_last_frame_of_a_small_budget_shows_the_next_guesses(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#method=ddtree&budget=2")
    ask(page, "Tell me how it ends")
    press_run(page)
    finish(page)
    page.wait_for_function(f"{SCENE} === 'card' && {STAGE}.header.budget === 2")
    assert page.locator(".cs-frame-budget").is_visible(), "the budget strip stays"
    page.locator(".cs-frame-tree .cp-node.is-unverified").first.wait_for(state="attached")
    assert page.get_by_text("not verified").first.is_visible(), "the legend has the dashed guesses"


def test_escape_skips_to_the_card(animated: Any) -> None:
    ask(animated, "Tell me how it ends")
    press_run(animated)
    finish(animated)
    animated.wait_for_function(f"{SCENE} || {STAGE}.current < {STAGE}.rounds.length - 1")
    while animated.evaluate(SCENE) != "card":
        animated.keyboard.press("Escape")


def test_the_bars_are_of_as_many_tokens_if_plain_decoding_writes_another_text(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=story")
    ratio = page.evaluate("""() => {
        const { film, stage: { comparison: { speed, text, tracks } } } = Canopy.parts;
        text.verdict = "near-tie";
        tracks.ends = ["0.5000", "99"]; // a longer text
        film.go("card");
        return speed.ratio;
    }""")
    assert page.locator(".cs-ends b").all_inner_texts() == [f"{0.5 * ratio:.4f} s", "0.5000 s"]


def test_the_race_and_the_last_frame_count_passes_if_there_is_no_speed(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=story")
    page.evaluate("""() => {
        const { film, stage: { comparison: { speed, tracks } } } = Canopy.parts;
        Object.assign(speed, { withheld: "Other programs used this machine." });
        Object.assign(tracks, { seconds: [], ends: [] });
        film.go("race");
    }""")
    tokens, passes = page.evaluate(f"[{STAGE}.figures.tokens, {STAGE}.figures.rounds]")
    assert page.locator(".cs-track-flag").all_inner_texts() == [f"✓ {tokens} passes", f"✓ {passes} passes"]
    assert "Other programs" in page.locator(".cs-more").inner_text()
    page.evaluate("Canopy.parts.film.go('card')")
    assert page.locator(".cs-ends b").all_inner_texts() == [f"{tokens} passes", f"{passes} passes"]
    assert "×" not in page.locator(".cs-story").inner_text()
    assert "Other programs" in (why := page.locator(".cs-plainly")).inner_text()
    page.evaluate(f"{STAGE}.go(0, {{ follow: true }})")
    assert why.is_hidden(), "it waits until the text has been played"
