"""The story: it ends on what the run came to, shows the race on one clock, and begins anew by itself."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE


def test_it_ends_on_the_total_and_says_why(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.keyboard.press("End")
    run, against = page.evaluate(f"""() => {{
        const stage = {STAGE}, run = Canopy.figures(stage.rounds);
        return [run, Canopy.against(run, stage.header, stage.baseline)];
    }}""")
    headline = page.locator(".cs-headline").inner_text()
    assert headline.startswith(f"{run['tokens']} tokens in {run['rounds']} passes, ") and against["text"] in headline
    assert f"{run['tau']:.1f} ÷ {against['cost']:.1f}" in page.locator(".cs-more").inner_text()
    assert abs(run["tau"] / against["cost"] - against["gain"]) < 1e-9  # the arithmetic of the figures
    assert page.locator(".cs-metric-cost .cs-number").inner_text() == f"{against['cost']:.1f}×"
    assert "the big model's own, word for word" in page.locator(".cs-more").inner_text()
    page.evaluate(f"{STAGE}.header.lossless = false; {STAGE}.tell('compared')")
    assert "This method is biased" in page.locator(".cs-more").inner_text()


def test_a_recordings_budget_is_the_most_that_auto_may_use_here(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate("Canopy.parts.lessons.open('wide', { push: true })")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '256'", timeout=9000)
    assert page.locator("#canopy-pace input").input_value().startswith("auto")


def test_slower_than_plain_decoding_looks_like_what_it_is(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.evaluate(f"""() => {{
        const stage = {STAGE};
        const speed = Canopy.figures(stage.rounds).tokensPerSecond;
        stage.baselines.set(stage.matter(stage.header), {{ tokens_per_second: 2 * speed }});
        stage.go(stage.rounds.length - 1, {{}});
    }}""")
    gain = page.locator(".cs-metric-gain")
    assert gain.locator(".cs-number").inner_text() == "0.50×"
    colour = "(element) => getComputedStyle(element).color"
    amber = page.evaluate("getComputedStyle(document.querySelector('.is-slow .cs-number')).color")
    assert gain.locator(".cs-number").evaluate(colour) == amber == "rgb(163, 106, 0)"
    assert "slower than one at a time: 0.50×" in page.locator(".cs-headline").inner_text()


def test_the_same_text_is_typed_twice_on_one_clock(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.keyboard.press("End")
    page.get_by_role("button", name="Watch both").click()
    duel = page.locator(".cs-duel")
    duel.wait_for(state="visible")
    plain, tree = duel.locator(".cs-lane-text").all()
    assert plain.text_content() == tree.text_content() and "${7*6}" in (plain.text_content() or "")
    ends = page.evaluate("Canopy.parts.duel.lanes.map(({times}) => times[times.length - 1])")
    baseline, spent = page.evaluate(f"""() => [{STAGE}.baseline.seconds, {STAGE}.rounds.reduce((sum, made) =>
        sum + Object.values(made.seconds).reduce((all, each) => all + each, 0), 0)]""")
    tokens = page.evaluate("Canopy.parts.duel.lanes[0].times.length")
    assert abs(ends[1] - spent) < 1e-9 and ends[0] == baseline[tokens - 1]
    page.keyboard.press("Escape")
    duel.wait_for(state="hidden")


@pytest.mark.long
def test_it_begins_anew_by_itself(watched: Watched, address: str) -> None:
    page = watched.page
    page.emulate_media(reduced_motion="no-preference")
    page.goto(address)
    page.wait_for_function("window.Canopy && Canopy.parts && Canopy.parts.player.playing")
    page.evaluate(f"""() => {{
        const {{ player }} = Canopy.parts;
        player.faster(4);
        window.seen = [];
        {STAGE}.on("finale", () => seen.push({STAGE}.current));
        {STAGE}.on("round", () => seen.length && seen.push({STAGE}.current));
        {STAGE}.go({STAGE}.rounds.length - 2, {{}});
    }}""")
    page.wait_for_selector(".cs-duel", state="visible")
    page.wait_for_function("seen.includes(0)", timeout=40_000)
    assert page.evaluate("seen[0]") == page.evaluate(f"{STAGE}.rounds.length") - 1
    assert page.locator(".cs-duel").is_hidden() and page.evaluate("Canopy.parts.player.playing")
