"""The list of runs: open, tick, star; a reload and a link after the server has forgotten a run."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.browser.actions import RUN, STAGE, STATE, ask, fill_more, run, start
from tests.browser.conftest import READY, Watched
from tests.explorer.scripted import ENDLESS

GONE = "location.hash = location.hash.replace(/trace=[^&]*/, 'trace=0123456789ab')"


def row(page: Any, words: str) -> Any:
    """Return a run in the list by words of its label or figures."""
    return page.locator(".cs-run", has_text=words)


def test_a_starred_run_stays_in_the_list_after_the_server_has_forgotten_it(
        watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, "A run to keep")
    run(page, "ddtree")
    name, rounds = page.evaluate(f"[{RUN}, {STAGE}.rounds.length]")
    page.goto("about:blank")
    watched.open(f"{address}#mode=workbench&trace=welcome")
    page.get_by_role("button", name="Runs").click()
    kept = row(page, "A run to keep")
    assert "τ" in kept.inner_text() and "% drafted" in kept.inner_text()
    kept.get_by_role("button", name="Keep in this browser").click()
    page.locator(".cs-star[aria-pressed=true]").wait_for()
    kept.locator(".cs-run-open").click()
    page.wait_for_function(f"{RUN} === '{name}' && {STAGE}.rounds.length === {rounds}")
    page.evaluate("Canopy.parts.runs.store((runs) => [...runs, { ...runs[0], run: 'forgotten' }])")
    page.evaluate("Canopy.parts.runs.tick('forgotten', true)")
    page.wait_for_function("document.querySelectorAll('.cp-budget-pin').length === 2")
    page.evaluate(f"Canopy.parts.runs.open({{ run: 'gone', options: {STAGE}.header.options }})")  # without a file
    page.get_by_role("button", name="Run it again").wait_for()
    page.evaluate(f"localStorage.setItem('canopy-run-file:gone', localStorage.getItem('canopy-run-file:{name}'))")
    page.evaluate("Canopy.parts.runs.open({ run: 'gone' })")
    page.wait_for_function(f"{STAGE}.recorded && {RUN}.startsWith('file-') && {STAGE}.rounds.length === {rounds}")


def test_ticked_runs_are_drawn_over_the_shown_one_also_after_a_reload(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#trace=welcome&mode=workbench")
    page.get_by_role("button", name="Runs").click()
    for method in ("merged", "routed"):
        row(page, f"Scripted: {method}").get_by_role("checkbox").check()
        page.wait_for_function(f"{STAGE}.overlaidRuns.some(({{ method }}) => method === '{method}')")
    marks = "[...document.querySelectorAll('.cp-budget-pin')].map((mark) => mark.textContent).sort().join('')"
    outlines = "[...document.querySelectorAll('.cs-outline')].map((line) => line.getAttribute('stroke'))"
    for _ in range(2):
        page.wait_for_function(f"{marks} === 'AABB' && {outlines}.length === 2")
        strokes = page.evaluate(outlines)
        assert all(f"--method-{method}" in stroke for method, stroke in zip(("merged", "routed"), strokes, strict=True))
        page.reload()
        page.wait_for_function(READY)
    page.get_by_role("button", name="Compare (2)").click()
    page.wait_for_function("window.Canopy.laboratory?.compare?.sides.every((side) => side.ends)")
    assert page.evaluate("Canopy.laboratory.compare.sides.map((side) => side.run)") == ["merged", "routed"]
    assert page.evaluate("""[...document.querySelectorAll(".lab-side-run")].every((side) =>
        side.querySelector(".cp-tools").getBoundingClientRect().bottom
            <= side.querySelector(".lab-pair-tree").getBoundingClientRect().top + 1)"""), "no button covers a tree"
    assert page.locator(".cs-runs").is_hidden(), "the runs have its room"
    page.get_by_role("button", name="Choose runs").click()
    third = row(page, "Scripted: autoregressive").get_by_role("checkbox")
    third.check()
    page.wait_for_function("document.querySelector('.lab-pair-depth')?.querySelectorAll('i').length === 3")
    third.uncheck()
    page.wait_for_function("document.querySelectorAll('.lab-side-run').length === 2")
    page.get_by_role("button", name="What happens, in plain words").click()
    row(page, "Scripted: merged").get_by_role("checkbox").uncheck()
    page.wait_for_function(f"{marks} === 'AA'")


def test_a_reload_rejoins_a_run_in_progress(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    ask(page, ENDLESS)
    start(page, "merged")
    page.wait_for_function(f"{STAGE}.rounds.length > 5 && location.hash.includes({RUN})")
    name, seen = page.evaluate(f"[{RUN}, {STAGE}.rounds.length]")
    page.reload()
    page.wait_for_function(f"{READY} && {RUN} === '{name}' && {STAGE}.rounds.length > {seen + 5}")
    assert page.evaluate(f"[{STATE}, {STAGE}.current === {STAGE}.rounds.length - 1]") == ["running", True]
    page.wait_for_function(f"document.querySelector('#canopy-prompt textarea').value === '{ENDLESS}'")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'merged'")
    page.click("#canopy-stop")
    page.wait_for_function(f"{STATE} === 'stopped'")


def test_a_prompt_typed_before_a_linked_run_has_loaded_is_kept(watched: Watched, address: str) -> None:
    page, waiting = watched.page, []

    def hold(route: Any) -> None:
        waiting.append(route)

    page.route("**/canopy/runs/merged*", hold)
    page.goto(f"{address}#trace=merged&mode=workbench")
    page.wait_for_function("document.querySelector('#canopy-method input')?.value")
    ask(page, "Written early")
    while not page.evaluate(f"{READY} && {RUN} === 'merged'"):
        while waiting:
            waiting.pop().continue_()
        page.wait_for_timeout(100)
    page.wait_for_timeout(1000)  # by then a response that could overwrite it has arrived
    assert page.input_value("#canopy-prompt textarea") == "Written early"


def test_a_link_to_a_run_that_the_server_does_not_have_fills_the_bar(watched: Watched, address: str) -> None:
    page = watched.open(f"{address}#mode=workbench")
    fill_more(page, "canopy-seed", "7")
    page.keyboard.press("Escape")
    page.locator("#canopy-seed").wait_for(state="hidden")
    ask(page, "A question of a link")
    run(page, "routed")
    page.wait_for_function("location.hash.includes('ask=')")
    assert '"seed":7' in parse_qs(urlsplit(page.url).fragment)["ask"][0]
    page.evaluate(GONE)
    link = page.evaluate("location.href")
    page.goto("about:blank")
    watched.open(link)
    again = page.get_by_role("button", name="Run it again")
    again.wait_for()
    assert page.locator(".cs-notice.is-error").is_hidden()
    page.wait_for_function("document.querySelector('#canopy-prompt textarea').value === 'A question of a link'")
    page.wait_for_function("document.querySelector('#canopy-method input').value === 'routed'")
    again.click()
    page.wait_for_function(f"{STATE} === 'done' && {STAGE}.header.method === 'routed' && !{STAGE}.recorded")
    assert page.evaluate(f"[{STAGE}.header.prompt, {STAGE}.header.seed]") == ["A question of a link", 7]
