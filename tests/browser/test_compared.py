"""A typed run gets its ×: plain decoding of the same prompt is measured after it, and what is slower is said to be."""

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE, STATE, ask, run


def test_a_typed_run_gets_its_measured_speed_up(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, "A question that nobody asked before")
    run(page, "ddtree")
    assert page.evaluate(f"{STATE}") == "done"
    page.wait_for_function(f"{STAGE}.against !== null")
    against = page.evaluate(f"{STAGE}.against")
    figure = page.locator(".cs-metric-gain")
    assert figure.locator(".cs-number").inner_text() == against["times"] and against["range"] in figure.inner_text()
    page.evaluate(f"{STAGE}.setMode('story')")
    page.keyboard.press("End")
    assert "word for word" in page.locator(".cs-more").inner_text()
    page.reload()  # the link to the run knows it too
    page.wait_for_function(f"window.Canopy && Canopy.parts && Canopy.parts.ready && {STAGE}.against !== null")


def test_what_is_slower_says_so_and_what_would_help(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate(f"""() => {{
        const {{ server }} = {STAGE};
        server.compare = async () => ({{ job: "made up" }});
        server.compared = async () => ({{ state: "done", result: {{ state: "ended", text: {{ words: "" }}, tracks: {{}},
            speed: {{ withheld: "", standing: "slower", ratio: 0.5, times: "0.50×", range: "0.48 to 0.52", tau: "2.00",
                cost: "4.0", speed: "20", plain_speed: "40", words: "" }},
            gpu: {{ name: "qwen3-8b on an H200", loop: 1.43, floor: 1.21, caution: "Predicted, not measured." }},
            others: [{{ method: "ddtree", budget: 64, pace: "auto", ratio: 1.3, times: "1.30×", rounds: 9,
                drafted: 9 }}],
        }} }});
    }}""")
    run(page, "ddtree")
    use = page.get_by_role("button", name="Use auto up to 64 nodes: 1.30×")
    use.wait_for(state="visible")
    assert page.locator(".cs-metric-gain.is-slow").count() == 1
    plainly = page.locator(".cs-plainly")
    assert "costs 4.0 plain ones here, so τ 2.00 loses; from τ 4.0 on it wins" in plainly.inner_text()
    slide = plainly.get_by_label("What if a pass cost less?")
    assert "4.0 plain ones, as measured here" in plainly.inner_text()
    for at, words in (
            ("1.21", "1.21 plain ones, the least that bandwidth allows qwen3-8b on an H200: τ 2.00 gives 1.65×"),
            ("1.42", "1.43 plain ones, as the published loop takes for qwen3-8b on an H200: τ 2.00 gives 1.40×"),
            ("3", "3.00 plain ones: τ 2.00 gives 0.67×, predicted")):
        slide.fill(at)
        assert words in plainly.inner_text()
    use.click()
    page.wait_for_function("document.querySelector('#canopy-pace input').value.startsWith('auto')")


def test_a_slow_recording_links_to_one_that_won(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=story")
    page.keyboard.press("Escape")  # past the film
    page.evaluate(f"""() => {{
        const stage = {STAGE};
        const {{ listed }} = Canopy.parts.recordings;
        const won = listed.find(({{ won }}) => won);
        listed.forEach((one) => {{ one.won = one === won ? won.won : ""; one.rig = stage.header.rig; }});
        stage.value = {{ ...stage.value, run: "another" }};
        stage.compared("another", {{ ...stage.comparison, others: [], speed: {{ ...stage.comparison.speed,
            standing: "slower", ratio: 0.5, cost: "30", times: "0.50×" }} }});
        stage.tell("compared");
    }}""")
    won = page.get_by_role("button", name="See one that won:")
    title, times = page.evaluate(
        "(({ title, won }) => [title, won])(Canopy.parts.recordings.listed.find((one) => one.won))")
    assert won.inner_text() == f"See one that won: {title}, {times}" and times.endswith("×")
    won.click()
    page.wait_for_function(f"{STAGE}.against && {STAGE}.against.times === '{times}'")
    won.wait_for(state="hidden")


def test_where_nobody_could_measure_it_says_so(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate(f"{STAGE}.server.compare = async () => ({{ error: 'Somebody runs.' }})")
    ask(page, "Another question")
    run(page, "ddtree")
    page.wait_for_function(f"{STAGE}.comparing === 'Somebody runs.'")
    assert "not measured" in page.locator(".cs-metric-gain").inner_text()
    page.evaluate(f"{STAGE}.setMode('story')")
    page.keyboard.press("End")
    words = page.locator(".cs-more").inner_text()
    assert "Somebody runs." in words and "word for word" not in words


RECORD = """{ withheld: "", again: false, standing: "faster", ratio: 2.05, times: "2.0×", range: "1.9 to 2.2",
    tau: "4.00", cost: "2.0", speed: "123", plain_speed: "60.0", words: "", how: "" }"""
BUSY = '{ withheld: "It was busy.", again: true, speed: "97.1", plain_speed: "", times: "", ratio: 0 }'


def test_what_is_withheld_wins_nowhere_until_it_is_measured_again(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate(f"""() => {{
        const {{ server }} = {STAGE};
        window.found = {BUSY};
        server.compare = async () => ({{ job: "made up" }});
        server.compared = async () => ({{ state: "done", result: {{ state: "ended", text: {{ words: "" }}, tracks: {{}},
            others: [], gpu: null, speed: window.found }} }});
    }}""")
    ask(page, "A question for a busy machine")
    run(page, "ddtree")
    again = page.get_by_role("button", name="Measure again")
    again.wait_for(state="visible")
    assert "It was busy." in page.locator(".cs-plainly").inner_text()
    assert page.locator(".cs-metric-gain.is-fast").count() == 0
    kept = f"[{STAGE}.kept[0].speed, {STAGE}.kept[0].printed]"
    assert page.evaluate(kept) == [None, "97.1"]
    speed = page.locator(".cs-metric-speed .cs-number")
    assert speed.inner_text() == "97.1"
    page.evaluate(f"window.found = {RECORD}")
    again.click()
    page.wait_for_function(f"{STAGE}.against !== null")
    assert again.is_hidden() and speed.inner_text() == "123" and page.evaluate(kept) == [123, "123"]


def test_two_runs_have_an_arrow_only_beside_speeds_that_may_be_said(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(f"{address}#mode=lab&tab=compare")
    page.wait_for_function("window.Canopy && Canopy.laboratory")
    page.wait_for_function("Canopy.laboratory.compare.sides.every((side) => side.shown)")
    arrows = """(records) => {
        const { compare } = Canopy.laboratory, [first] = compare.sides;
        compare.sides.forEach(({ stage }, place) => {
            stage.value = { ...stage.value, header: { ...first.stage.header, drafters: ["one"] } };
            stage.comparison = { state: "ended", speed: records[place] };
        });
        compare.changed();
        return compare.sides.map(({ figures }) =>
            Array.from(figures.children).slice(1, 3).map((item) => item.textContent));
    }"""
    said, slower = page.evaluate(f"[{RECORD}, {{ ...{RECORD}, speed: '100', ratio: 1.67, times: '1.67×' }}]")
    withheld = page.evaluate(f"({BUSY})")
    assert page.evaluate(arrows, [said, slower]) == [
        ["123 ▲tokens/s", "2.0× ▲plain decoding's speed"], ["100tokens/s", "1.67×plain decoding's speed"]]
    assert page.evaluate(arrows, [slower, withheld]) == [
        ["100tokens/s", "1.67×plain decoding's speed"], ["97.1tokens/s", "withheldplain decoding's speed"]]
