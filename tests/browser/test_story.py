"""The story: it ends on the run's result, shows the race on one clock, and can be presented by keys alone."""

import re
from pathlib import Path

from engine.lab.speed import rate_text, ratio_text
from engine.trace import tau
from explorer.run_form import read_presets
from tests.browser.actions import RUN, STAGE, STATE, show_as
from tests.browser.conftest import Watched
from tests.explorer.scripted import scripted_trace


def test_the_story_ends_on_consistent_figures_and_states_only_what_was_compared(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=story")
    page.keyboard.press("End")
    run, against = page.evaluate(f"[{STAGE}.figures, {STAGE}.speedup]")
    assert against["tau"] == f"{tau(scripted_trace('joint', 64).rounds):.2f}"
    headline, more = page.locator(".cs-headline").inner_text(), page.locator(".cs-more")
    assert headline.startswith(f"{run['tokens']} tokens in {run['rounds']} passes, ") and against["times"] in headline
    printed = [page.locator(f".cs-metric-{name} .cs-number").inner_text() for name in ("tau", "cost", "gain")]
    length, cost, gain = (float(text.rstrip("×")) for text in printed)
    assert ratio_text(length / cost) == ratio_text(gain) and printed[1] == f"{against['cost']}×"
    assert "word for word" in more.inner_text() and f"all {run['tokens']} tokens" in more.inner_text()

    page.evaluate(f"{STAGE}.comparison = null; {STAGE}.emit('compared')")
    assert not re.search("word for word|÷", more.inner_text())
    show_as(page, "another", about={"comparison": {
        "state": "ended", "tracks": {}, "others": [], "speed": {"withheld": "Forged."},
        "text": {"words": "The text first differs from plain decoding's at word 7."}}})
    page.keyboard.press("End")
    assert more.inner_text().strip() == "The text first differs from plain decoding's at word 7."
    assert "Forged." in page.locator(".cs-plainly").inner_text()
    gain = page.locator(".cs-metric-gain")
    assert gain.is_hidden()
    assert page.get_by_role("button", name="Watch both").is_hidden()


def test_the_headline_of_a_long_live_run_shows_its_mean_so_far(onlooker: Watched) -> None:
    page = onlooker.show("#trace=wide&mode=story")
    for index in (4, 5):
        page.evaluate(f"{STAGE}.go({index}, {{ follow: true }})")
        tokens = page.evaluate(f"{STAGE}.rounds.slice(0, {index + 1}).flatMap(({{ keep }}) => Array.from(keep)).length")
        assert f"{tokens / (index + 1):.1f} " in page.locator(".cs-headline").inner_text()
        page.locator(".cp-budget-head p", has_text=f"τ {tokens / (index + 1):.2f},").wait_for()
    page.evaluate(f"{STAGE}.comparison = {{ state: 'ended', tracks: {{}}, text: {{ words: '' }}, others: [], "
                  "speed: { withheld: 'Forged.', again: true } }")
    for index, said in ((4, False), (page.evaluate(f"{STAGE}.rounds.length") - 1, True)):
        page.evaluate(f"{STAGE}.go({index}, {{ follow: true }})")
        assert page.locator(".cs-plainly").is_visible() == said


def test_the_caret_of_a_live_run_is_at_the_end_of_the_shown_text(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=story&round=2")
    page.evaluate(f"{STAGE}.setState('running', '')")
    carets = page.evaluate("""Array.from(document.querySelectorAll(".cs-output, .cs-part")).filter((part) =>
        getComputedStyle(part, "::after").content !== "none" && getComputedStyle(part).visibility === "visible",
    ).map((part) => part.dataset.round)""")
    page.evaluate(f"{STAGE}.setState('done', '')")
    assert carets == ["1"]


def test_the_race_shows_both_texts_and_speeds_on_one_clock(watched: Watched, address: str) -> None:
    page = watched.open(address)
    page.keyboard.press("End")
    page.get_by_role("button", name="Watch both").click()
    duel = page.locator(".cs-duel")
    duel.wait_for(state="visible")
    flags = duel.locator(".cs-track-flag").all_inner_texts()
    figures = [re.fullmatch(r"✓ \d+ passes, ([\d.]+) s: ([\d.]+) tokens/s", flag) for flag in flags]
    seconds, speeds = zip(*(map(float, figure.groups()) for figure in figures if figure), strict=True)
    divided = [page.evaluate(f"{STAGE}.figures.tokens") / time for time in seconds]
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
    plain, tree = duel.locator(".cs-track-text").all_text_contents()
    assert " forged" in plain and " forged" not in tree


def test_a_presentation_needs_no_mouse_and_shows_no_notices(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}?present#mode=story")
    page.wait_for_function("Canopy.parts.rigs.state && !Canopy.parts.rigs.state.first_load")
    assert page.locator(".cs-notice:visible").count() == 0
    opening, vetted = page.evaluate(RUN), read_presets(Path("assets/prompts")).vetted()
    prompts = [offered["prompt"] for offered in vetted["any"]]
    page.wait_for_function("Object.keys(JSON.parse(sessionStorage.getItem('canopy-timed') ?? '{}')).length === 3")
    timed = page.evaluate("JSON.parse(sessionStorage.getItem('canopy-timed'))")
    assert list(timed) == prompts and page.evaluate(RUN) == opening, "three prompts were timed without being shown"
    hints = page.locator(".cs-hints")
    assert hints.locator("li").count() == 3
    fits = "Math.abs(document.querySelector('.cs-stage').getBoundingClientRect().bottom - innerHeight) < 2"
    page.wait_for_function(fits)
    page.focus("#canopy-prompt textarea")
    page.wait_for_function(fits)
    page.evaluate("document.activeElement.blur()")
    page.wait_for_function(fits)
    page.evaluate(f"{STAGE}.showRequested('Stop me', [])")
    page.locator("#canopy-stop").click(trial=True)
    page.wait_for_function(fits)
    page.evaluate(f"{STAGE}.halt()")
    page.evaluate("""() => {
        const field = document.querySelector("#canopy-prompt textarea");
        window.written = [];
        setInterval(() => written.push(field.value), 20);
        const budget = document.querySelector("#canopy-budget input");
        budget.value = 3;
        budget.dispatchEvent(new Event("input", { bubbles: true }));
    }""")
    page.keyboard.press("2")
    page.wait_for_function(f"{RUN} !== '{opening}' && {STATE} === 'done'")
    assert page.evaluate(f"{STAGE}.header.prompt") == prompts[1] and page.evaluate(RUN) != timed[prompts[1]]["run"]
    hints.wait_for(state="hidden")
    page.wait_for_function("document.querySelector('#canopy-budget input').value !== '3'")  # the bar has what was asked
    page.wait_for_function("written.at(-1) === ''")
    assert prompts[1] not in page.evaluate("written"), "the field is for the next turn"
    page.evaluate(f"""{STAGE}.server.compare = async () => ({{ job: "busy" }});
        {STAGE}.server.compared = async () => ({{ state: "done", result: {{ state: "ended", text: {{ words: "" }},
            tracks: {{}}, others: [], speed: {{ withheld: "Busy.", again: true, speed: "9" }} }} }});""")
    page.keyboard.press("3")
    page.wait_for_function(f"{RUN} === '{timed[prompts[2]]['run']}' && {STAGE}.scene === 'card'")
    assert timed[prompts[2]]["date"] in page.locator(".cs-timed").inner_text()
    assert page.locator(".cs-ends div").count() == 2 and page.locator(".cs-frame-budget").is_visible()
    page.evaluate("Canopy.parts.rigs.state.opened_as = 'smollm2'; Canopy.parts.ask(0)")
    page.wait_for_function(f"{STAGE}.header.prompt === '{vetted['smollm2'][0]['prompt']}' && {STATE} === 'done'")
    page.evaluate(f"{STAGE}.disconnect('The server is gone.')")
    page.wait_for_function(f"{STAGE}.recorded && {RUN} === '{opening}'")


def test_a_text_that_repeats_itself_is_shaded_and_can_be_ended(onlooker: Watched) -> None:
    page = onlooker.show("#trace=welcome&mode=workbench")
    assert page.locator(".cs-token.is-repeated").count() == 0
    first = page.evaluate(f"{STAGE}.rounds[0].keep.length + {STAGE}.rounds[1].keep.length + 1")
    show_as(page, "looping", {"recorded": ""}, {"comparison": None, "repetition": {
        "token": first, "round": 2, "words": "From here on it repeats itself. " * 20}})
    tokens, token, measured = page.evaluate(
        f"[{STAGE}.figures.tokens, {STAGE}.repetition.token, {STAGE}.figuresBeforeRepetition]")
    assert page.locator(".cs-token.is-repeated").count() == tokens - token > 0
    assert "repeats itself" in page.locator(".cs-plainly").inner_text()
    assert f"{measured['tau']:.2f}" in page.locator(".cs-metric-tau").inner_text()
    end = page.get_by_role("button", name="End before it repeats").bounding_box()
    assert end and end["x"] + end["width"] < page.viewport_size["width"], "a long note does not hide the button"
    page.evaluate(f"{STAGE}.setMode('story')")
    assert page.locator(".cs-metric-gain").is_hidden(), "no figure is shown without a number"
    page.keyboard.press("End")
    assert f"{measured['tokens']} tokens in 2 passes" in page.locator(".cs-headline").inner_text()
    page.evaluate(f"{STAGE}.setState('running', '')")
    page.get_by_role("button", name="Stop here").click()
    assert page.evaluate(STATE) == "stopped"
