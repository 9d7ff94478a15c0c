"""A typed run gets its ×: plain decoding of the same prompt is measured after it, and what is slower is said to be."""

from __future__ import annotations

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
        server.compared = async () => ({{ state: "done", result: {{ state: "ended", text: {{ words: "" }},
            speed: {{ withheld: "", standing: "slower", ratio: 0.5, times: "0.50×", range: "0.48 to 0.52", tau: "2.00",
                cost: "4.0", speed: "20", plain_speed: "40", words: "" }},
            others: [{{ method: "ddtree", budget: 64, pace: "auto", ratio: 1.3, times: "1.30×", rounds: 9,
                drafted: 9 }},
                {{ method: "ddtree", budget: 7, pace: "auto", ratio: 1.7, times: "1.70×", rounds: 9,
                drafted: 1 }}],
        }} }});
    }}""")
    run(page, "ddtree")
    notice = page.locator(".cs-notice.is-slower")
    notice.wait_for(state="visible")
    words = notice.inner_text()
    assert "slower than plain decoding" in words and "auto up to 64 nodes 1.30×" in words
    assert "7 nodes" not in words, "that one decoded plainly, so what it seems faster by is chance"
    assert page.locator(".cs-metric-gain.is-slow").count() == 1
    plainly = page.locator(".cs-plainly")
    assert plainly.inner_text().startswith("Plain decoding is faster here: 40 against 20 tokens/s, 0.50×.")
    assert plainly.inner_text().endswith("The budget auto would have decoded plainly.")
    notice.get_by_role("button", name="Use auto up to 64 nodes").click()
    page.wait_for_function("document.querySelector('#canopy-pace input').value.startsWith('auto')")
    assert notice.is_hidden()


def test_where_nobody_could_measure_it_says_so(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate(f"{STAGE}.server.compare = async () => ({{ error: 'Somebody runs.' }})")
    ask(page, "Another question")
    run(page, "ddtree")
    page.wait_for_function(f"{STAGE}.comparing === 'Somebody runs.'")
    assert "not measured" in page.locator(".cs-metric-gain").inner_text()
    page.evaluate(f"{STAGE}.setMode('story')")
    page.keyboard.press("End")
    said = page.locator(".cs-more").inner_text()
    assert "Somebody runs." in said and "word for word" not in said
