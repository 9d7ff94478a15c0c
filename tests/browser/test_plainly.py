"""A tree is never shown where plain decoding is faster without a sentence that says so; auto says where it rested."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Watched
from tests.browser.doing import STAGE, run


def held_against(page: Page, times: float, others: str = "[]") -> None:
    """As if plain decoding had been measured at so many times the run's speed."""
    page.evaluate(f"""() => {{
        const stage = {STAGE};
        const speed = {times} * Canopy.figures(stage.rounds).tokensPerSecond;
        stage.baselines.set(stage.matter(stage.header), {{ tokens_per_second: speed, others: {others} }});
        stage.tell("compared");
    }}""")


@pytest.mark.parametrize("mode", ["story", "workbench"])
def test_where_plain_decoding_is_faster_every_way_to_look_says_so(watched: Watched, address: str, mode: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    page.evaluate(f"{STAGE}.server.compare = async () => ({{ error: 'Not now.' }})")
    run(page, "ddtree")
    page.evaluate(f"{STAGE}.setMode('{mode}')")
    words = page.locator(".cs-plainly")
    held_against(page, 0.5)
    assert words.is_hidden()
    held_against(page, 1.01)
    assert words.inner_text().startswith("Plain decoding is as fast here: ")
    held_against(page, 2, "[{ pace: 'auto', rounds: 40, drafted: 3 }]")
    said = words.inner_text()
    assert said.startswith("Plain decoding is faster here: ") and " against " in said and "tokens/s" in said
    assert said.endswith("The budget auto would have decoded plainly.")
    held_against(page, 2, "[{ pace: 'auto', rounds: 40, drafted: 30 }]")
    assert words.inner_text().endswith("tokens/s.")


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
