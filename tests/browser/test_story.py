"""The story: it ends on what the run came to, and shows the race on one clock."""

import re
from pathlib import Path

from engine.lab.speed import rate_text, ratio_text
from engine.trace import tau
from explorer.run_form import read_presets
from tests.browser.conftest import Watched
from tests.browser.doing import RUN, STAGE, show_as
from tests.explorer.scripted import scripted_trace


def test_it_ends_on_the_total_and_says_why(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.keyboard.press("End")
    run, against = page.evaluate(f"[{STAGE}.figures, {STAGE}.against]")
    assert against["tau"] == f"{tau([entry.round for entry in scripted_trace('joint', 64).entries]):.2f}"
    headline = page.locator(".cs-headline").inner_text()
    assert headline.startswith(f"{run['tokens']} tokens in {run['rounds']} passes, ") and against["times"] in headline
    more = page.locator(".cs-more")
    assert f"{against['tau']} ÷ {against['cost']} = {against['times'][:-1]} ({against['range']}" in more.inner_text()
    printed = [page.locator(f".cs-metric-{name} .cs-number").inner_text() for name in ("tau", "cost", "gain")]
    length, cost, gain = (float(text.rstrip("×")) for text in printed)
    assert ratio_text(length / cost) == ratio_text(gain) and printed[1] == f"{against['cost']}×"  # as anybody divides
    assert f"word for word: all {run['tokens']} tokens were compared" in more.inner_text()


def test_nothing_is_said_of_the_text_that_no_comparison_found(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.keyboard.press("End")
    page.evaluate(f"{STAGE}.comparison = null; {STAGE}.tell('compared')")
    more = page.locator(".cs-more").inner_text()
    assert "word for word" not in more and "÷" not in more and "not measured" in more
    show_as(page, "another", about={"comparison": {
        "state": "ended", "tracks": {}, "others": [], "speed": {"withheld": "Forged."},
        "text": {"words": "The text parts from plain decoding’s at word 7."}}})
    page.keyboard.press("End")
    more = page.locator(".cs-more").inner_text()
    assert more.strip() == "Forged. The text parts from plain decoding’s at word 7."
    assert page.locator(".cs-metric-gain .cs-number").inner_text() == "–"
    assert page.get_by_role("button", name="Watch both").is_hidden()


def test_a_recordings_budget_is_used_in_full(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate("Canopy.parts.recordings.open('wide', { push: true })")
    page.wait_for_function("document.querySelector('#canopy-budget input').value === '256'", timeout=9000)
    assert page.locator("#canopy-pace input").input_value() == "in full"


def test_slower_than_plain_decoding_looks_like_what_it_is(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.evaluate(f"""() => {{
        const stage = {STAGE};
        stage.comparison = {{ ...stage.comparison,
            speed: {{ ...stage.comparison.speed, standing: "slower", times: "0.50×", ratio: 0.5 }} }};
        Canopy.parts.player.go(stage.rounds.length - 1, {{}});
    }}""")
    gain = page.locator(".cs-metric-gain")
    assert gain.locator(".cs-number").inner_text() == "0.50×"
    colour = "(element) => getComputedStyle(element).color"
    amber = page.evaluate("getComputedStyle(document.querySelector('.is-slow .cs-number')).color")
    assert gain.locator(".cs-number").evaluate(colour) == amber == "rgb(163, 106, 0)"
    assert "slower than one at a time: 0.50×" in page.locator(".cs-headline").inner_text()


def test_both_tracks_type_what_each_wrote_on_one_clock(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.keyboard.press("End")
    page.get_by_role("button", name="Watch both").click()
    duel = page.locator(".cs-duel")
    duel.wait_for(state="visible")
    plain, tree = duel.locator(".cs-track-text").all()
    assert plain.text_content() == tree.text_content() and "${7*6}" in (plain.text_content() or "")
    assert duel.locator(".cs-duel-title").inner_text() == "The same text, on one clock"
    flags = duel.locator(".cs-track-flag").all_inner_texts()
    figures = [re.fullmatch(r"✓ (\d+) tokens in \d+ passes, ([\d.]+) s: ([\d.]+) tokens/s", flag) for flag in flags]
    tokens, seconds, speeds = zip(*(map(float, figure.groups()) for figure in figures if figure), strict=True)
    divided = [count / time for count, time in zip(tokens, seconds, strict=True)]
    assert list(map(rate_text, divided)) == list(map(rate_text, speeds))
    gain = page.locator(".cs-metric-gain .cs-number").inner_text()
    assert ratio_text(speeds[1] / speeds[0]) == gain[:-1]
    page.keyboard.press("Escape")
    duel.wait_for(state="hidden")
    page.evaluate(f"""() => {{
        const stage = {STAGE}, {{ tracks }} = stage.comparison;
        const texts = tracks.texts.map((text, place) => (place === 9 ? " forged" : text));
        stage.comparison = {{ ...stage.comparison, tracks: {{ ...tracks, texts, title: "Two texts" }} }};
    }}""")
    page.get_by_role("button", name="Watch both").click()
    duel.wait_for(state="visible")
    assert " forged" in (plain.text_content() or "") and " forged" not in (tree.text_content() or "")
    assert duel.locator(".cs-duel-title").inner_text() == "Two texts"


def test_a_recording_that_is_opened_plays_and_ends_on_its_card(watched: Watched, address: str) -> None:
    page = watched.page
    page.emulate_media(reduced_motion="no-preference")
    watched.open(address)
    page.evaluate(f"""() => {{
        window.seen = [];
        {STAGE}.on("scene", () => seen.push({STAGE}.scene));
        Canopy.parts.film.hurry = 0.02;
        Canopy.parts.player.faster(4);
        Canopy.parts.recordings.open("merged", {{}});
    }}""")
    page.wait_for_function(f"{RUN} === 'merged' && {STAGE}.scene === 'card'")
    assert page.evaluate("seen[seen.lastIndexOf('') + 1]") == "guess", "its rounds were just seen"
    assert page.evaluate("!Canopy.parts.player.playing")


def test_a_presenter_needs_neither_mouse_nor_notices(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}?present#mode=story")
    page.wait_for_function("Canopy.parts.rigs.state && !Canopy.parts.rigs.state.coming")
    size = "(element) => parseFloat(getComputedStyle(element).fontSize)"
    assert page.locator(".cs-headline").evaluate(size) >= 32 and page.locator(".cs-notices").is_hidden()
    asked = page.evaluate(RUN)
    vetted = read_presets(Path("assets/prompts")).vetted()
    assert "scripted" not in vetted and len(vetted["smollm2"]) == len(vetted["any"]) == 3
    prompts = [offered["prompt"] for offered in vetted["any"]]
    page.wait_for_function("Object.keys(JSON.parse(sessionStorage.getItem('canopy-timed') ?? '{}')).length === 3")
    timed = page.evaluate("JSON.parse(sessionStorage.getItem('canopy-timed'))")
    assert list(timed) == prompts and page.evaluate(RUN) == asked, "three were timed, and the page shows none of them"
    hints = page.locator(".cs-hints")
    assert hints.is_visible() and hints.locator("li").count() == 3
    page.keyboard.press("2")
    page.wait_for_function(f"{STAGE}.value.run !== '{asked}' && {STAGE}.state === 'done'")
    assert page.evaluate(f"{STAGE}.header.prompt") == prompts[1] and page.evaluate(RUN) != timed[prompts[1]]["run"]
    hints.wait_for(state="hidden")
    page.evaluate(f"""{STAGE}.server.compare = async () => ({{ job: "busy" }});
        {STAGE}.server.compared = async () => ({{ state: "done", result: {{ state: "ended", text: {{ words: "" }},
            tracks: {{}}, others: [], speed: {{ withheld: "Busy.", again: true, speed: "9" }} }} }});""")
    page.keyboard.press("3")
    page.wait_for_function(f"{RUN} === '{timed[prompts[2]]['run']}' && {STAGE}.scene === 'card'")
    assert timed[prompts[2]]["date"] in page.locator(".cs-timed").inner_text()
    assert page.locator(".cs-ends").is_visible() and page.locator(".cs-ends div").count() == 2
    page.evaluate("Canopy.parts.rigs.state.opened = 'smollm2'; Canopy.parts.ask(0)")
    page.wait_for_function(f"{STAGE}.header.prompt === '{vetted['smollm2'][0]['prompt']}' && {STAGE}.state === 'done'")
    page.evaluate(f"{STAGE}.lose('The server is gone.')")
    page.wait_for_function(f"{STAGE}.recorded && {STAGE}.value.run === '{asked}'")
    assert page.locator(".cs-badge").inner_text().startswith("recorded")


def test_a_text_that_repeats_itself_is_shaded_said_and_can_be_ended(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    assert page.locator(".cs-token.is-repeated").count() == 0
    first = page.evaluate(f"{STAGE}.rounds[0].keep.length + {STAGE}.rounds[1].keep.length + 1")
    show_as(page, "looping", {"recorded": ""}, {"comparison": None, "repetition": {
        "token": first, "round": 2, "words": "From here on it repeats itself: τ 2.00 before, 9.00 after."}})
    tokens, token, rounds, measured = page.evaluate(
        f"[{STAGE}.figures.tokens, {STAGE}.repetition.token, {STAGE}.rounds.length, {STAGE}.measured]")
    assert page.locator(".cs-token.is-repeated").count() == tokens - token > 0
    page.wait_for_function("document.querySelector('.cs-repeated').getAttribute('d')")
    assert "τ 2.00 before, 9.00 after" in page.locator(".cs-plainly").inner_text()
    figures = page.locator(".cs-metric-tau").inner_text(), page.locator(".cs-metric-rounds").inner_text()
    assert f"{measured['tau']:.2f}" in figures[0] and str(rounds) in figures[1] and "2 before" in figures[1]
    page.evaluate(f"{STAGE}.setMode('story')")
    page.keyboard.press("End")
    headline = page.locator(".cs-headline").inner_text()
    assert headline.startswith(f"{measured['tokens']} tokens in 2 passes before it repeats itself")
    page.evaluate(f"{STAGE}.say('running', '')")
    page.get_by_role("button", name="Stop here").click()
    assert page.evaluate(f"{STAGE}.value.state") == "stopped"
