"""Several concurrent requests in a browser: cells fill in, the slider changes every part, and axe reports nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.test_axe import AXE, COMPLAINTS
from tests.browser.test_lab import LAB, RESULTS, STATE, choose, lab_page

pytestmark = pytest.mark.long

LABELS = "Array.from(document.querySelectorAll('[data-plot=heat] .textpoint text'), (label) => label.textContent)"


@pytest.fixture(scope="module")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with lab_page(browser, tmp_path_factory.mktemp("lab"), "0.02", "load") as page:
        measure(page)
        yield page


def measure(lab: Any) -> None:
    """Measure six settings on two prompts and watch the cells; every test calls this, since any may come first."""
    lab.locator("[data-plot=heat]", has_text="Nothing measured with scripted rig yet").wait_for()
    choose(lab, ["ddtree"], [8, 64])
    lab.evaluate(f"{LAB}.sweep.concurrency.values = [1, 8]; {LAB}.sweep.drawPlan()")
    assert lab.locator(".lab-plan").inner_text().startswith("6 settings on 2 prompts: 12 runs")
    lab.locator("[data-plot=heat]").get_by_role("button", name="Measure").click()
    lab.wait_for_function(f"{STATE} === 'running' && {LABELS}.length > 0")
    lab.wait_for_function(f"{STATE} === 'done' && {LABELS}.length === 6")


def test_the_recommendation_follows_the_slider(lab: Any) -> None:
    lab.evaluate(f"{LAB}.tabs.go('load')")
    rows = lab.locator(".lab-concurrency-table tbody tr")
    assert rows.count() == 2 and "8 nodes" in lab.locator(".lab-concurrency-table thead").inner_text()
    assert lab.locator(".lab-pane-load .lab-words li").first.inner_text().startswith("1 request at once: ")
    lab.evaluate(AXE)
    assert lab.evaluate(COMPLAINTS) == []

    lab.evaluate(f"{LAB}.tabs.go('speed')")
    alone = lab.locator(".lab-verdict .lab-headline").inner_text()
    slider = lab.get_by_label("Concurrency", exact=True).and_(lab.locator("[type=range]"))
    slider.focus()
    slider.press("End")
    lab.wait_for_function(f"{RESULTS}.concurrency === 8")
    assert "8 at once" in lab.locator(".lab-verdict .lab-headline").inner_text() and "at once" not in alone
    assert "--concurrency 8" in lab.locator(".lab-verdict").text_content()
    assert slider.get_attribute("aria-valuetext") == "8 at once"
    lab.evaluate(AXE)
    assert lab.evaluate(COMPLAINTS) == []


def test_a_row_without_a_speed_up_can_be_measured_again(lab: Any) -> None:
    lab.evaluate(f"{LAB}.tabs.go('load')")
    again = lab.get_by_role("button", name="Measure again")
    assert again.is_hidden()
    lab.evaluate(f"""() => {{
        const {{ ask }} = {LAB};
        {LAB}.ask = async (name, ...wanted) => {{
            const answer = await ask(name, ...wanted);
            if (name === "lab_concurrency") answer.rows[1].withheld = "Other programs were using the machine.";
            return answer;
        }};
        {LAB}.load.draw(); }}""")
    assert lab.locator(".lab-concurrency-table tr.is-withheld").inner_text().startswith("8")
    before = lab.evaluate(f"{LAB}.progress.sweep")
    lab.evaluate(f"{LAB}.sweep.promptCount.value = 5; {LAB}.sweep.tokens.value = 7")
    command = lab.evaluate(f"{LAB}.progress.command")
    again.click()
    lab.wait_for_function(f"{LAB}.progress.sweep > {before} && {STATE} === 'done'")
    lab.wait_for_function(f"{LAB}.load.view.rows.length === 2")
    assert lab.evaluate(f"{LAB}.progress.command") == command, "the sweep's own prompts, not the form's"
    rows = lab.evaluate(f"{LAB}.load.view.rows.map((row) => [row.concurrency, row.cells.length])")
    assert rows == [[1, 3], [8, 3]]
