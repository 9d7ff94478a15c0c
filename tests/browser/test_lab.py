"""The lab in a browser: points appear as they are measured, survive a reload, and lead to a recommendation."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import PORT, served, visit

pytestmark = pytest.mark.long

LAB = "Canopy.laboratory"
RESULTS = f"{LAB}.results"
STATE = f"{LAB}.progress.state"
PLOT = "document.querySelector('[data-plot=curves] .lab-canvas')"
MARKS = "document.querySelectorAll('[data-plot=curves] .scatterlayer .points path').length"


@contextmanager
def lab_page(browser: Any, folder: Path, seconds: str = "0.05", tab: str = "speed") -> Iterator[Any]:
    """Yield the lab of a new server that saves results in that folder: a round of the stage takes ``seconds``, one of
    the lab a tenth. Fail if the page logged an error or sent a request to another host."""
    with (served("-m", "tests.browser.serve", PORT, seconds, "--results", str(folder / "results.sqlite")) as url,
          visit(browser, url) as watched):
        open_lab(watched.page, f"{url}#mode=lab&tab={tab}")
        yield watched.page


@pytest.fixture(scope="module")
def visited(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Provide one page on the lab for all tests, because plotly.js loads slowly."""
    with lab_page(browser, tmp_path_factory.mktemp("lab")) as page:
        yield page


@pytest.fixture
def lab(visited: Any) -> Any:
    """Provide the page with no measurement running and the curves in front."""
    visited.wait_for_function(f"!['queued', 'running'].includes({STATE}) && !Canopy.parts.stage.busy")
    visited.evaluate(f"{LAB}.tabs.go('speed')")
    return visited


def open_lab(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_function(f"window.Canopy && {LAB} && {RESULTS}.curves && window.Plotly")


def tick(group: Any, wanted: list[str]) -> None:
    """Tick these boxes of a group and no others."""
    for box in group.get_by_role("checkbox", disabled=False).all():
        box.set_checked(box.input_value() in wanted)


def choose(page: Any, methods: list[str], budgets: list[int | str]) -> None:
    """Choose these methods and budgets, for two prompts."""
    form = page.locator(".lab-sweep")
    if not form.locator("details").evaluate("details => details.open"):
        form.locator("summary").click()
    tick(form.get_by_role("group", name="Methods"), methods)
    tick(form.get_by_role("group", name="Node budgets"), list(map(str, budgets)))
    form.get_by_label("How many").fill("2")


def button(page: Any, name: str) -> Any:
    return page.locator(".lab-sweep").get_by_role("button", name=name)


def zoom(page: Any, area: str) -> None:
    """Drag across the middle of the area."""
    page.locator(area).scroll_into_view_if_needed()
    box = page.locator(area).bounding_box()
    left, right = (box["x"] + share * box["width"] for share in (0.3, 0.7))
    page.mouse.move(left, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(right, box["y"] + box["height"] / 2, steps=3)
    page.mouse.up()


def test_points_appear_as_they_are_measured_and_survive_a_reload(lab: Any) -> None:
    choose(lab, ["dflash", "ddtree", "joint"], [8, 16, 32])
    assert lab.locator(".lab-plan").inner_text().startswith("10 settings on 2 prompts: 20 runs")
    button(lab, "Measure").click()
    lab.wait_for_function(f"{STATE} === 'running' && {LAB}.progress.done > 2 && {MARKS} > 2")
    few, done = lab.evaluate(f"[{MARKS}, {LAB}.progress.done]")
    assert done < 20
    lab.reload()
    lab.wait_for_function(f"window.Canopy && {LAB} && {RESULTS}.curves && {LAB}.progress.done >= {done}")
    lab.wait_for_function(f"{STATE} === 'done' && {RESULTS}.table.rows.length === 10 && {MARKS} > {few}"
                          f" && {RESULTS}.table.rows.every((row) => row.runs === 2)")
    assert "20 of 20 runs" in lab.locator(".lab-sweep .lab-said").inner_text()
    before = lab.evaluate(f"{RESULTS}.table")
    lab.reload()
    lab.wait_for_function(f"window.Canopy && {LAB} && {RESULTS}.table && {MARKS} > {few}")
    assert lab.evaluate(f"{RESULTS}.table") == before

    rows = lab.evaluate(f"{RESULTS}.table.rows.map(row => [row.label, row.total.median])")
    fastest = max(rows, key=lambda row: row[1])[0]
    assert lab.locator(".lab-headline").inner_text() == fastest
    assert lab.locator(".lab-table-box tbody tr").count() == 10
    assert lab.locator(".lab-table-box tr.is-best").inner_text().startswith(fastest)
    assert float(lab.locator(".lab-table-box tr.is-best td:nth-child(3) strong").inner_text()) > 1  # the speed-up

    assert lab.locator(".lab-kinds tbody td:first-child").all_inner_texts() == ["code", "math"]
    lab.get_by_label("Kind of text", exact=True).select_option("code")
    lab.wait_for_function(f"{RESULTS}.category === 'code' && {RESULTS}.table.rows.every((row) => row.runs === 1)")
    assert "· code" in lab.locator(".lab-eyebrow").inner_text() and lab.locator(".lab-kinds").is_hidden()
    lab.get_by_label("Kind of text", exact=True).select_option("all")
    lab.wait_for_function(f"{RESULTS}.category === '' && {RESULTS}.table.rows.every((row) => row.runs === 2)")

    lab.locator(".lab-sweep summary").click()
    prompts = lab.locator(".lab-sweep").get_by_label("How many")
    prompts.fill("7")
    lab.locator(".lab-verdict").get_by_role("button", name="More prompts").click()  # two prompts were too few
    assert prompts.evaluate("(field) => [field.value, document.activeElement === field]") == ["14", True]

    lab.locator(".lab-verdict").get_by_role("button", name="Use it").click()
    method, nodes = fastest.split(", ")
    lab.wait_for_function(f"document.querySelector('#canopy-method input').value === '{method}'")
    lab.wait_for_function(f"document.querySelector('#canopy-budget input').value === '{nodes.split()[0]}'")


def test_every_point_has_its_interval(lab: Any) -> None:
    seen = ("[...document.querySelectorAll('[data-plot=curves] .scatterlayer .errorbar')]"
            ".filter((bar) => getComputedStyle(bar).visibility === 'visible').length")
    lab.mouse.move(5, 5)
    lab.wait_for_function(f"{MARKS} > 3 && {seen} > 3")


def test_a_run_waits_for_a_sweep_and_runs_while_it_is_paused(lab: Any) -> None:
    choose(lab, ["joint"], [8, 16, 32, 64])
    button(lab, "Measure").click()
    lab.wait_for_function(f"{STATE} === 'running'")
    lab.click("#canopy-run")
    lab.wait_for_function("Canopy.parts.stage.state === 'queued'")
    lab.locator(".cs-notice", has_text="has the machine to itself").wait_for(state="visible")
    button(lab, "Pause").click()
    lab.wait_for_function(f"{STATE} === 'paused'")
    done = lab.evaluate(f"{LAB}.progress.done")
    assert done < 10
    lab.wait_for_function("!Canopy.parts.stage.recorded && Canopy.parts.stage.state === 'done'")
    assert lab.evaluate(f"{LAB}.progress.done") == done
    button(lab, "Resume").click()
    lab.wait_for_function(f"{STATE} === 'done' && {LAB}.progress.done === 10")


def test_a_run_updates_the_plot_and_keeps_its_zoom(lab: Any) -> None:
    choose(lab, ["joint"], [8, 16])
    button(lab, "Measure").click()
    lab.wait_for_function(f"{STATE} === 'done' && {MARKS} > 3")
    zoom(lab, "[data-plot=curves] .draglayer .x2y2 .nsewdrag")
    lab.wait_for_function(f"{PLOT}._fullLayout.xaxis2.autorange === false")
    zoomed = lab.evaluate(f"{PLOT}._fullLayout.xaxis2.range")
    lab.click("#canopy-run")
    lab.wait_for_function("!Canopy.parts.stage.recorded && Canopy.parts.stage.state === 'done'")
    lab.wait_for_function(f"{PLOT}.data.find((trace) => trace.meta === 'running.tau').y[0] === "
                          "Canopy.parts.stage.figuresBeforeRepetition.tau")
    assert lab.evaluate(f"{PLOT}._fullLayout.xaxis2.range") == zoomed


@pytest.fixture
def fresh(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Provide the lab of a rig that has measured and run nothing."""
    with lab_page(browser, tmp_path) as page:
        yield page


def test_auto_can_be_measured_recommended_adopted_and_raced(fresh: Any) -> None:
    lab = fresh
    choose(lab, ["joint"], ["auto", 0])  # budget 0 drafts nothing and is slower, so auto has to win
    button(lab, "Measure").click()
    lab.wait_for_function(f"{STATE} === 'done' && {RESULTS}.table.rows.length === 3 && {RESULTS}.curves.count === 3")
    assert lab.locator(".lab-headline").inner_text() == "joint, auto"
    auto, zero = lab.evaluate(f"[{RESULTS}.curves.figure.auto, {RESULTS}.curves.figure.zero]")
    assert auto > zero and lab.locator("[data-plot=curves] .x2tick").all_text_contents() == ["0", "auto"]
    lab.get_by_role("tab", name="Acceptance").click()
    lab.wait_for_function(f"{LAB}.acceptance.budget.value === 'auto' && {LAB}.acceptance.plots.lengths.figure")
    assert lab.evaluate(f"{LAB}.acceptance.plots.lengths.figure.data[0].name") == "joint"

    lab.get_by_role("tab", name="Speed").click()
    lab.locator(".lab-verdict").get_by_role("button", name="Use it").click()
    lab.wait_for_function("document.querySelector('#canopy-pace input').value === 'auto: as many as pay'")
    lab.wait_for_function(f"{PLOT}.layout.shapes.length === 1 && {PLOT}.layout.shapes[0].x0 === {auto}")
    lab.click("#canopy-run")
    lab.wait_for_function("Canopy.parts.stage.state === 'done' && Canopy.parts.stage.header.pace === 'auto'")
    lab.wait_for_function(f"{PLOT}.data.some((trace) => trace.meta === 'running.tau' && trace.x[0] === {auto})")

    lab.get_by_role("tab", name="Compare").click()
    lab.click(".lab-race-form summary")
    for budget in ("node budget", "budget auto"):
        tick(lab.locator(".lab-race-form").get_by_role("group", name=budget), ["joint"])
    lab.locator(".lab-pane-compare .lab-primary").click()
    lab.wait_for_function(f"{LAB}.compare.race.drawn.length")
    tracks = lab.locator(".lab-track")
    assert tracks.locator("strong").all_inner_texts() == ["autoregressive", "joint, 256 nodes", "joint, auto"]
    assert [text.strip() for text in lab.locator(".lab-track-figures > :last-child").all_inner_texts()] == [
        "= same text"] * 3
    assert tracks.locator(".lab-flag.is-over").count() == 3  # reduced motion: the end is shown at once
    assert "${7*6} and </script>" in tracks.first.locator(".lab-track-text").evaluate("element => element.textContent")
    lab.get_by_label("Wall clock of the race").fill("0")
    assert tracks.locator(".lab-flag.is-over").count() == 0


def test_each_tab_takes_a_few_screens_on_a_phone(fresh: Any) -> None:
    fresh.set_viewport_size({"width": 390, "height": 844})
    fresh.reload()
    fresh.wait_for_function(f"window.Canopy && {LAB} && {RESULTS}.curves")
    fresh.evaluate(f"{LAB}.follow(0)")
    fresh.wait_for_function(f"{RESULTS}.table && {MARKS} > 3")
    for tab in ("speed", "acceptance", "load", "compare", "check"):
        fresh.evaluate(f"{LAB}.tabs.go('{tab}')")
        fresh.wait_for_function("document.querySelectorAll('.lab-pane:not([hidden]) :is(.main-svg, .lab-note)').length")
        width, height = fresh.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert width <= 390 and height < 2300, tab
        if tab == "speed":
            table = fresh.locator(".lab-table-box .lab-scroll")
            assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), "its buttons are in the window"


def test_predictions_costs_and_the_doctors_findings_are_shown(lab: Any) -> None:
    lab.get_by_role("button", name="Predict all budgets").click()
    lab.wait_for_function("Array.from(document.querySelectorAll('[data-plot=curves] .legendtext'))"
                          ".some(text => text.textContent === 'predicted')")
    lab.locator("[data-plot=gain]").scroll_into_view_if_needed()
    lab.wait_for_selector("[data-plot=gain] .main-svg")
    assert "predicted" in lab.locator("[data-plot=gain] .annotation-text").first.text_content()
    lab.get_by_role("tab", name="Check").click()
    lab.locator(".lab-pane-check .lab-primary").click()
    lab.wait_for_selector(".lab-finding[data-status=wrong]")
    assert "story" in lab.locator(".lab-findings > h3").first.inner_text()
    fine = lab.locator(".lab-finding[data-status=fine]")
    assert fine.count() == 1 and fine.is_hidden()
    lab.locator(".lab-findings summary").click()
    assert fine.is_visible()
    lab.reload()
    lab.wait_for_selector(".lab-finding[data-status=wrong]", state="attached")


def test_the_lab_says_what_cannot_be_measured(lab: Any) -> None:
    choose(lab, [], [8])
    button(lab, "Measure").click()
    error = lab.locator(".lab-sweep .lab-error")
    error.wait_for(state="visible")
    assert "autoregressive" in error.inner_text()
    budgets = lab.get_by_label("Other budgets")
    budgets.fill("12, many")
    budgets.press("Enter")
    lab.wait_for_function("document.querySelector('.lab-error').textContent.includes('many')")
    chips = lab.locator(".lab-sweep .lab-chip").count()
    budgets.fill(", ".join(map(str, range(100, 600))))
    budgets.press("Enter")
    lab.wait_for_function("document.querySelector('.lab-error').textContent.includes('64')")
    assert lab.locator(".lab-sweep .lab-chip").count() == chips and budgets.input_value()
    budgets.fill("48, 12")
    budgets.press("Enter")
    added = lab.locator(".lab-sweep").get_by_role("group", name="Node budgets").locator("[value='12'], [value='48']")
    assert added.evaluate_all("(boxes) => boxes.map((box) => box.checked)") == [True, True]
    lab.set_input_files(".lab-sweep input[type=file]", {
        "name": "mine.jsonl", "mimeType": "text/plain", "buffer": b'{"prompt": "one"}\n{"prompt": 2}\n'})
    lab.wait_for_function("document.querySelector('.lab-error').textContent.includes('line 2')")
    lab.set_input_files(".lab-sweep input[type=file]", {
        "name": "mine.jsonl", "mimeType": "text/plain", "buffer": b'{"prompt": "one"}\n{"turns": ["two"]}\n'})
    lab.locator(".lab-sweep select option:checked", has_text="mine.jsonl (2)").wait_for(state="attached")


def test_the_lab_shows_why_a_run_was_refused(lab: Any) -> None:
    prompt = lab.input_value("#canopy-prompt textarea")
    lab.fill("#canopy-prompt textarea", "   ")
    lab.click("#canopy-run")
    lab.locator(".cs-notice.is-error", has_text="The prompt is empty").wait_for(state="visible")
    lab.fill("#canopy-prompt textarea", prompt)


def test_the_report_can_be_saved(lab: Any, tmp_path: Path) -> None:
    lab.wait_for_function(f"{RESULTS}.table && {RESULTS}.table.best")
    lab.get_by_role("button", name="Save what was measured").click()
    with lab.expect_download() as download:
        lab.get_by_role("menuitem", name="HTML page").click()
    download.value.save_as(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf8")
    assert f": {lab.evaluate(f'{RESULTS}.table.best.label')}</h2>" in text


def test_the_keyboard_reaches_everything_in_the_lab(lab: Any) -> None:
    lab.focus("#lab-tab-speed")
    names = ["speed", "acceptance", "load", "compare", "check"]
    assert lab.locator(".lab-tab").evaluate_all("(tabs) => tabs.map((tab) => tab.id)") == [
        f"lab-tab-{name}" for name in names]
    for name in (*names[1:], *names[:2]):
        lab.keyboard.press("ArrowRight")
        assert lab.evaluate("document.activeElement.id") == f"lab-tab-{name}"
        assert lab.locator(".lab-pane:visible").evaluate_all("(panes) => panes.map((pane) => pane.id)") == [
            f"lab-pane-{name}"]
    lab.keyboard.press("ArrowLeft")
    assert lab.evaluate("document.activeElement.id") == "lab-tab-speed"
    lab.keyboard.press("ArrowRight")
    rounds = lab.evaluate("Canopy.parts.stage.current")
    lab.keyboard.press("Tab")
    lab.keyboard.press("ArrowRight")
    assert lab.evaluate("Canopy.parts.stage.current") == rounds


def test_a_plots_zoom_can_be_undone_and_nothing_covers_its_legend(lab: Any) -> None:
    lab.evaluate("window.div = document.querySelector('[data-plot=curves] .lab-canvas')")
    lab.evaluate("window.fitted = JSON.stringify(div._fullLayout.xaxis.range)")
    zoom(lab, "[data-plot=curves] .draglayer .xy .nsewdrag")
    lab.wait_for_function("JSON.stringify(div._fullLayout.xaxis.range) !== fitted")
    on_legend = lab.evaluate("""() => {
        const { left, top, width, height } = div.querySelector(".legend").getBoundingClientRect();
        const at = (share) => document.elementFromPoint(left + share * width, top + height / 2);
        return [0.1, 0.5, 0.9].map((share) => Boolean(at(share).closest(".modebar, button")));
    }""")
    assert on_legend == [False, False, False] and lab.locator(".modebar:visible").count() == 0
    lab.locator("[data-plot=curves]").get_by_role("button", name="Undo the zoom").click()
    lab.wait_for_function("JSON.stringify(div._fullLayout.xaxis.range) === fitted")


def test_a_runs_acceptance_its_cost_on_other_machines_and_flags_are_shown(lab: Any) -> None:
    lab.evaluate(f"{LAB}.tabs.go('acceptance')")
    lab.get_by_label("Rounds of").select_option("run")
    for name in ("lengths", "map", "calibration", "rows", "nodes", "trees"):
        lab.locator(f"[data-plot={name}]").scroll_into_view_if_needed()
        lab.wait_for_function(f"document.querySelector('[data-plot={name}] .main-svg')")
    assert lab.locator(".lab-pane-acceptance .lab-words li").count() > 3

    lab.evaluate(f"{LAB}.tabs.go('speed')")
    if not lab.evaluate("document.querySelector('.lab-elsewhere').open"):
        lab.locator(".lab-elsewhere > summary").click()
    lab.wait_for_function("document.querySelectorAll('.lab-elsewhere .lab-command').length === 5")
    lab.locator("[data-plot=elsewhere]").scroll_into_view_if_needed()
    lab.wait_for_selector("[data-plot=elsewhere] .main-svg")
    lab.evaluate("""() => {  // both at once: the first question is still open when the second choice is made
        const [model, device] = document.querySelectorAll(".lab-elsewhere select");
        for (const [select, value] of [[model, "qwen3-coder-30b-a3b"], [device, "L4"]]) {
            select.value = value;
            select.dispatchEvent(new Event("input", { bubbles: true }));
        } }""")
    lab.locator("[data-plot=elsewhere]", has_text="61 GB").wait_for()
    lab.get_by_label("Device", exact=True).select_option("H200")
    lab.get_by_role("button", name="Copy: llama.cpp").click()
    lab.wait_for_selector(".lab-elsewhere button >> text=/Copied|Ctrl/")
