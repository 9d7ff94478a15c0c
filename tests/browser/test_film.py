"""The film: it starts by itself, its figures are the recording's, it can be left, and a live run ends on its card."""

import pytest

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE, ask, finish, press

SCENE = f"{STAGE}.scene"
SCENES = ["plain", "guess", "verify", "race", "same", "card"]


@pytest.fixture
def moving(watched: Watched) -> Watched:
    """Somebody who did not ask for stillness."""
    watched.page.emulate_media(reduced_motion="no-preference")
    return watched


def test_it_stands_still_where_asked_and_its_figures_are_the_recordings(watched: Watched, address: str) -> None:
    page = watched.open(address)
    lengths, tracks, against, nodes = page.evaluate(f"""[{STAGE}.rounds.map((made) => made.keep.length),
        {STAGE}.comparison.tracks, {STAGE}.against, {STAGE}.rounds.map((made) => made.n - 1)]""")
    plain, best = tracks["texts"], page.evaluate("Canopy.parts.film.best")
    depth = page.evaluate(f"Math.max(...{STAGE}.rounds[{best}].depths)")
    before = sum(lengths[:best])
    headline, flags = page.locator(".cs-headline"), page.locator(".cs-track-flag")
    place = page.locator(".cs-film-place")
    seen = []
    for scene in SCENES:
        page.wait_for_function(f"{SCENE} === '{scene}' && !Canopy.parts.frames.planned")
        seen.append((place.inner_text(), headline.inner_text()))
        if scene == "plain":
            count = before + lengths[best]
            assert flags.first.inner_text() == f"pass {count}"
            assert page.locator(".cs-track-text").first.text_content() == "".join(plain[:count])
        if scene == "race":
            assert flags.all_inner_texts() == [
                f"✓ {tokens} tokens in {passes} passes, {seconds} s: {speed} tokens/s"
                for tokens, passes, seconds, speed in (
                    (len(plain), len(plain), tracks["ends"][1], against["plain_speed"]),
                    (sum(lengths), len(lengths), tracks["ends"][0], against["speed"]))]
        page.keyboard.press("ArrowRight")
    assert [at for at, _ in seen] == [f"{number} of 6" for number in range(1, 7)]
    headlines = [words for _, words in seen]
    assert str(nodes[best]) in headlines[1] and f"{depth} tokens ahead" in headlines[1]
    assert headlines[2] == f"One pass of the big model just wrote {lengths[best]} tokens."
    assert headlines[4] == f"Same words ✓, {len(lengths)} passes instead of {len(plain)}."
    assert headlines[5].startswith(f"{sum(lengths)} tokens in {len(lengths)} passes, ")
    page.get_by_role("button", name="Your turn").click()
    assert page.evaluate("document.activeElement.closest('#canopy-prompt') !== null")


def test_it_is_left_by_key_and_button_and_played_again(moving: Watched, address: str) -> None:
    page = moving.open(address)
    assert page.evaluate(SCENE) == "plain"
    page.keyboard.press("Escape")
    assert page.evaluate(SCENE) == "card"
    page.get_by_role("button", name="Replay").click()
    assert page.evaluate(SCENE) == "plain"
    page.get_by_role("button", name="Skip").click()
    assert page.evaluate(SCENE) == "card" and page.locator(".cs-frame-tree").is_visible()
    page.keyboard.press("Home")
    assert page.evaluate(SCENE) == "" and page.locator(".cs-frame-tree").is_visible()


def test_a_live_run_is_shown_round_by_round_and_ends_on_its_card(moving: Watched, address: str) -> None:
    page = moving.open(address)
    page.evaluate(f"""() => {{
        window.seen = [];
        {STAGE}.on("round", () => {STAGE}.recorded || seen.push({STAGE}.current));
        {STAGE}.on("scene", () => seen.push({SCENE}));
        Canopy.parts.film.hurry = 0.02;
    }}""")
    ask(page, "Tell me how it ends")
    press(page)
    finish(page)
    page.wait_for_function(f"{SCENE} === 'card' && seen.includes('same')")
    last = page.evaluate(f"{STAGE}.rounds.length") - 1
    seen = page.evaluate("seen")
    shown = list(dict.fromkeys(seen[:seen.index("guess")]))
    assert [place for place in shown if place != ""] == list(range(last + 1)), "none is left out"
    lengths = page.evaluate(f"{STAGE}.rounds.map((made) => made.keep.length)")
    assert lengths[page.evaluate(f"{STAGE}.current")] == max(lengths)
    assert page.locator(".cs-headline").inner_text().startswith(f"{sum(lengths)} tokens in {len(lengths)} passes")
    assert page.locator(".cs-frame-tree").is_visible() and page.locator(".cs-frame-text .cs-output").is_visible()
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("button", name="Watch both").click()
    flags = page.locator(".cs-track-flag").all_inner_texts()
    assert f" tokens in {len(lengths)} passes, " in flags[1] and f"✓ {sum(lengths)} tokens in " in flags[0]
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Tune its budget").click()
    page.wait_for_function(f"{STAGE}.mode === 'workbench' && {SCENE} === ''")


def test_a_person_in_a_hurry_goes_to_the_end(moving: Watched, address: str) -> None:
    page = moving.open(address)
    ask(page, "Tell me how it ends")
    press(page)
    assert page.locator(".cs-film-clock").inner_text().endswith(" s")
    finish(page)
    page.wait_for_function(f"{SCENE} || {STAGE}.current < {STAGE}.rounds.length - 1")
    while page.evaluate(SCENE) != "card":
        page.keyboard.press("Escape")
    assert page.evaluate(f"{STAGE}.resting")
