"""A tree is never shown where plain decoding is faster without a sentence that says so; auto says where it rested."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE, run


def held_against(page: Page, standing: str, others: str = "[]") -> None:
    """As if that had been found beside plain decoding."""
    page.evaluate(f"""() => {{
        const speed = {{ withheld: "", standing: "{standing}", times: "0.50×", ratio: 0.5, plain_speed: "40",
            speed: "20", tau: "2.00", cost: "4.0", range: "0.48 to 0.52", words: "" }};
        {STAGE}.compared({STAGE}.value.run, {{ state: "ended", speed, text: {{ words: "" }}, others: {others} }});
    }}""")


@pytest.mark.parametrize("mode", ["story", "workbench"])
def test_where_plain_decoding_is_faster_every_way_to_look_says_so(watched: Watched, address: str, mode: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate(f"{STAGE}.server.compare = async () => ({{ error: 'Not now.' }})")
    run(page, "ddtree")
    page.evaluate(f"{STAGE}.setMode('{mode}')")
    words = page.locator(".cs-plainly")
    held_against(page, "faster")
    assert words.is_hidden()
    held_against(page, "alike")
    assert words.inner_text().startswith("No clear difference to plain decoding here: ")
    held_against(page, "slower", "[{ pace: 'auto', rounds: 40, drafted: 3 }]")
    said = words.inner_text()
    assert said.startswith("Plain decoding is faster here: 40 against 20 tokens/s, 0.50×.")
    assert said.endswith("The budget auto would have decoded plainly.")
    held_against(page, "slower", "[{ pace: 'auto', rounds: 40, drafted: 30 }]")
    assert words.inner_text().endswith("tokens/s, 0.50×.")


def test_a_run_at_the_pace_auto_says_how_often_it_drafted(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate(f"{STAGE}.server.compare = async () => ({{ error: 'Not now.' }})")
    run(page, "ddtree")
    said, none, rounds = page.evaluate(f"""() => {{
        const stage = {STAGE};
        const sizes = stage.rounds.map((made) => made.n);
        const words = (drafted) => {{
            stage.rounds.forEach((made, place) => {{ made.n = place < drafted ? 9 : 1; }});
            stage.tell("compared");
            return document.querySelector(".cs-plainly").textContent;
        }};
        const pace = stage.header.pace;
        stage.header.pace = "auto";
        const found = [words(1), words(0), stage.rounds.length];
        stage.header.pace = pace;
        stage.rounds.forEach((made, place) => {{ made.n = sizes[place]; }});
        return found;
    }}""")
    assert said == f"auto drafted in 1 of {rounds} rounds; in the others a draft would have cost more than it brought."
    assert none.startswith("auto decoded plainly: ")
