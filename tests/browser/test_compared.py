"""A typed run gets its speed-up: plain decoding of the same prompt is measured after it. A slower, withheld or
unmeasured result is never shown as a win."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.actions import STAGE, ask, run
from tests.browser.conftest import Watched

RECORD = """{ withheld: "", again: false, outcome: "faster", ratio: 2.05, times: "2.0×", range: "1.9 to 2.2",
    tau: "4.00", cost: "2.0", speed: "123", plain_speed: "60.0", words: "", how: "" }"""
SLOWER = f'{{ ...{RECORD}, outcome: "slower", ratio: 0.5, times: "0.50×", tau: "2.00", cost: "4.0" }}'
BUSY = '{ withheld: "It was busy.", again: true, speed: "97.1", plain_speed: "", times: "", ratio: 0 }'
OTHERS = """[{ method: "ddtree", budget: 64, pace: "auto", rounds: 9, drafted: 9,
    ratio: 1.3, times: "1.30×", range: "1.2 to 1.4" }]"""
ANSWER = """() => {{
    const {{ server }} = Canopy.parts.stage;
    window.found = {speed};
    server.compare = async () => ({{ job: "made up" }});
    server.compared = async () => ({{ state: "done", result: {{ state: "ended", text: {{ words: "" }}, tracks: {{}},
        others: {others}, speed: window.found }} }});
}}"""


@pytest.fixture
def page(onlooker: Watched) -> Iterator[Any]:
    """Provide the workbench; afterwards drop the responses that the test replaced."""
    page = onlooker.show("#trace=welcome&mode=workbench")
    page.evaluate(f"window.answers = {{ ...{STAGE}.server }}")
    yield page
    page.evaluate(f"Object.assign({STAGE}.server, window.answers)")


def run_with(page: Any, speed: str, others: str = "[]") -> None:
    """Run in the workbench, and answer the comparison with this speed and these other settings."""
    page.evaluate(ANSWER.format(speed=speed, others=others))
    ask(page, "A question that nobody asked before")
    run(page, "ddtree")


def test_a_typed_run_gets_its_measured_speed_up_and_keeps_it(page: Any) -> None:
    ask(page, "A question that nobody asked before")
    run(page, "ddtree")
    page.wait_for_function(f"{STAGE}.speedup !== null")
    against = page.evaluate(f"{STAGE}.speedup")
    figure = page.locator(".cs-metric-gain")
    assert figure.locator(".cs-number").inner_text() == against["times"] and against["range"] in figure.inner_text()
    page.evaluate(f"{STAGE}.setMode('story')")
    page.keyboard.press("End")
    assert "word for word" in page.locator(".cs-more").inner_text()
    page.reload()  # the link to the run restores it
    page.wait_for_function(f"window.Canopy && Canopy.parts && Canopy.parts.ready && {STAGE}.speedup !== null")


def test_a_slower_run_says_so_and_suggests_what_would_help(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    run_with(page, SLOWER, OTHERS)
    use = page.get_by_role("button", name="Use auto (up to 64 nodes): 1.30×")
    use.wait_for(state="visible")
    assert page.locator(".cs-metric-gain.is-slower").count() == 1
    page.evaluate(f"{STAGE}.tryBudget(3)")
    page.locator(".cp-budget-head p", has_text="auto (up to 64 nodes)").wait_for()
    use.click()
    page.wait_for_function("document.querySelector('#canopy-pace input').value.startsWith('auto')")


def test_a_withheld_speed_up_is_no_win_until_it_is_measured_again(page: Any) -> None:
    run_with(page, BUSY)
    again = page.get_by_role("button", name="Measure again")
    again.wait_for(state="visible")
    assert "It was busy." in page.locator(".cs-plainly").inner_text()
    assert page.locator(".cs-metric-gain.is-faster").count() == 0
    speed = page.locator(".cs-metric-speed .cs-number")
    assert "busy" in page.locator(".cs-metric-speed small:visible").inner_text()
    assert speed.inner_text() == "97.1" and page.evaluate(f"{STAGE}.ownRuns[0].speed") is None
    page.evaluate(f"window.found = {RECORD}")
    again.click()
    page.wait_for_function(f"{STAGE}.speedup !== null")
    assert again.is_hidden() and speed.inner_text() == "123" and page.evaluate(f"{STAGE}.ownRuns[0].speed") == 123


def test_a_run_that_could_not_be_measured_says_why(page: Any) -> None:
    page.evaluate(f"{STAGE}.server.compare = async () => ({{ error: 'Somebody runs.' }})")
    ask(page, "Another question")
    run(page, "ddtree")
    page.wait_for_function(f"{STAGE}.comparing === 'Somebody runs.'")
    page.evaluate(f"{STAGE}.setMode('story')")
    page.keyboard.press("End")
    words = page.locator(".cs-more").inner_text()
    assert "Somebody runs." in words and "word for word" not in words


def test_two_runs_have_an_arrow_only_beside_comparable_figures(onlooker: Watched) -> None:
    page = onlooker.show("#mode=lab&tab=compare&runs=routed%2Cmerged")
    page.wait_for_function("window.Canopy && Canopy.laboratory")
    page.wait_for_function("Canopy.laboratory.compare.sides.filter((side) => side.ends).length === 2")
    named = page.evaluate("[Canopy.laboratory.compare.sides.map((side) => side.run), Canopy.parts.address.text()]")
    assert named[0] == ["routed", "merged"] and "runs=routed%2Cmerged" in named[1]
    arrows = f"""([withheld, prompt, range]) => {{
        const {{ compare }} = Canopy.laboratory, [first] = compare.sides;
        const slower = {{ ...{RECORD}, speed: "100", ratio: 1.67, times: "1.67×", range }};
        const records = withheld ? [slower, {BUSY}] : [{RECORD}, slower];
        compare.sides.forEach(({{ stage }}, place) => {{
            stage.run.header = {{ ...first.stage.header, drafters: ["one"], prompt: place ? prompt : "One" }};
            const value = {{ tau: 3 - place }};
            Object.defineProperty(stage, "figuresBeforeRepetition", {{ value, configurable: true }});
            stage.comparison = {{ state: "ended", speed: records[place] }};
        }});
        compare.update();
        const marked = (figure) => figure.innerText.includes("▲");
        return compare.sides.map(({{ figures }}) => [...figures.children].slice(0, 3).map(marked));
    }}"""
    assert page.evaluate(arrows, [False, "One", "1.5 to 1.8"]) == [[False, True, True], [False] * 3], "not of τ alone"
    assert page.evaluate(arrows, [False, "One", "1.2 to 2.1"]) == [[False] * 3] * 2, "ranges overlap"
    assert page.evaluate(arrows, [True, "One", "1.5 to 1.8"]) == [[False] * 3] * 2
    assert page.locator(".lab-pair-figures .is-doubtful").all_inner_texts() == ["97.1", "–"], "withheld"
    assert page.locator(".lab-side").is_hidden()
    assert page.evaluate(arrows, [False, "Another", "1.5 to 1.8"]) == [[False] * 3] * 2, "texts of different prompts"
