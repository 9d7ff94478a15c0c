"""The embedded model: the note on its limits, prompts that it answers right, and another rig for the others."""

from typing import Any

import pytest

from tests.browser.actions import STAGE, STATE
from tests.browser.conftest import Watched

SHOWN = f"""([note, about]) => {{
    const {{ rigs }} = Canopy.parts;
    const named = [{{ name: "smollm2", note: "" }}];
    rigs.update({{ ...rigs.state, opened_as: "demo", first_load: "", choice_disabled: "", named }});
    rigs.update = () => undefined;  // an answer of the server, which may be on its way, would say otherwise
    Object.assign({STAGE}.header, {{ recorded: "", note }});
    {STAGE}.setComments({{ ...{STAGE}.about, ...about }});
    {STAGE}.emit("lines", {{}});
}}"""


def open_page(watched: Watched, address: str, note: str = "", **about: Any) -> Any:
    """Return the page as it is with the embedded rig, after setting what is known about the run on the stage."""
    page = watched.open(f"{address}#trace=merged&mode=workbench&round=4")
    page.wait_for_function(f"Canopy.parts.rigs.state && {STAGE}.value.run === 'merged'")
    page.evaluate(SHOWN, [note, about])
    return page


def test_limits_are_always_shown_and_a_click_runs_a_prompt_that_it_answers_right(
        watched: Watched, address: str) -> None:
    page = open_page(watched, address, model_limit="A model of 11 million parameters: often wrong.")
    for mode in ("workbench", "story"):
        page.evaluate(f"{STAGE}.setMode('{mode}')")
        assert "often wrong" in page.locator(".cs-model").inner_text()
    page.locator(".cs-tries button").first.click()
    page.wait_for_function(f"{STATE} === 'done' && !{STAGE}.recorded && {STAGE}.header.prompt.startsWith('Omar has 6')")


def test_a_prompt_outside_the_training_data_can_be_sent_to_another_rig(watched: Watched, address: str) -> None:
    page = open_page(watched, address, model_limit="A model.", outside=True, note="This prompt lies outside.")
    page.evaluate(f"""{STAGE}.server.rig_choose = async (wanted) => {{
        window.chosen = wanted;
        return {{ error: 'No.' }};
    }}""")
    notice = page.locator(".cs-notice.is-outside")
    assert "lies outside" in notice.inner_text()
    notice.get_by_role("button", name="Answer it with smollm2").click()
    page.wait_for_function("window.chosen && window.chosen.rig === 'smollm2'")
    assert page.evaluate("Canopy.controls.promptToRun") == page.evaluate(f"{STAGE}.header.prompt")


def test_the_other_rig_answers_at_its_own_default_setting(watched: Watched, address: str) -> None:
    watched.page.add_init_script(
        "sessionStorage.setItem('canopy-reload', JSON.stringify({ promptToRun: 'What is rain?' }))")
    page = watched.open(address)
    page.wait_for_function("Canopy.parts.rigs.state")
    page.evaluate("""() => {
        const { rigs } = Canopy.parts;
        rigs.state = { ...rigs.state, defaults: { method: "joint", budget: 5 } };
        rigs.update = () => undefined;  // an answer of the server may be on its way
        Canopy.controls.adopt = (asked) => { window.adopted ||= asked; };
        Canopy.controls.runAfterReload();
    }""")
    page.wait_for_function("window.adopted")
    assert page.evaluate("[adopted.prompt, adopted.method, adopted.budget]") == ["What is rain?", "joint", 5]


@pytest.mark.long
def test_two_recordings_are_shown_side_by_side_with_their_trees(watched: Watched, address: str) -> None:
    (page := watched.page).goto(f"{address}#trace=merged&mode=lab&tab=compare&round=1")
    page.wait_for_function("document.querySelectorAll('.lab-pair-tree svg').length === 2")
    page.wait_for_function("Canopy.laboratory.compare.sides.every((side) => side.ends)")
    runs = page.evaluate("Canopy.laboratory.compare.sides.map((side) => side.stage.value.run)")
    assert runs[0] == "merged" != runs[1]
    page.get_by_label("Place in the text").fill("40")
    sides = page.evaluate("""Canopy.laboratory.compare.sides.map(({ stage, ends }) =>
        [stage.current > 0, ends[stage.current] > 40, ends[stage.current - 1] <= 40])""")
    assert sides == [[True, True, True]] * 2
    page.set_viewport_size({"width": 1000, "height": 800})
    page.wait_for_function("""Array.from(document.querySelectorAll('.lab-pair-tree')).every((host) =>
        host.querySelector('svg').clientWidth <= host.clientWidth)""")
    held = page.evaluate("([first, second]) => Canopy.parts.stage.server.two_runs("
                         "{ first: { run: first }, second: { run: second } })", runs)
    depths = max(len(side["depths"]) for side in held["sides"])
    page.wait_for_function(f"document.querySelectorAll('.lab-pair-depth').length === {depths}")
    assert page.locator(".lab-pane-compare .lab-note").inner_text().startswith(held["summary"])
