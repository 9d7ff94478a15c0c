"""vLLM on the demo target, attached: `make test-servers`. Its texts against ours, the page in a browser, a race."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.decoding.methods import SERVED
from engine.records import PromptRequest
from engine.requests.rig_names import RIGS_FOLDER
from engine.servers.counters import CounterHistory, traffic
from engine.serving.rigs import load_rig
from engine.trace import trace_from_lines
from explorer.attached import attach
from explorer.two_runs import two_runs
from tests.browser.conftest import PORT, browser, served, visit  # noqa: F401  (browser is a fixture)
from tests.running import ROOT, free_port, wait_until_served

VLLM = Path(os.environ.get("CANOPY_VLLM", Path.home() / ".cache" / "canopy" / "venv-vllm"))
START_SECONDS = 600
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
         "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
DRAFTS = {"method": "dflash", "model": "assets/demo/math", "num_speculative_tokens": 15}
FLAGS = ("--host", "127.0.0.1", "--served-model-name", "demo", "--dtype", "float32", "--max-model-len", "512",
         "--enforce-eager", "--per-request-spec-decode-metrics", "detailed", "--speculative-config", json.dumps(DRAFTS))
PROMPTS = [json.loads(line)["prompt"] for line in (RIGS_FOLDER / "prompts" / "math.jsonl").open(encoding="utf8")][:4]
RIGS = "Canopy.parts.rigs"  # null on the page of the first seconds
SETTLED = f"Canopy.parts && Canopy.parts.ready && {RIGS} && {RIGS}.state && !{RIGS}.state.first_load"
LOGGED_SECONDS = 12.0  # vLLM says what it counted every ten


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A vLLM of its own environment, serving the demo target with one of its DFlash drafters on the CPU: its address,
    and the file that it logs to."""
    port, log = free_port(), tmp_path_factory.mktemp("vllm") / "log"
    words = [str(VLLM / "bin" / "vllm"), "serve", "assets/demo/target", "--port", str(port), *FLAGS]
    with log.open("wb") as output:
        server = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **QUIET}, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until_served(f"http://127.0.0.1:{port}/health", server, START_SECONDS)
            yield f"http://127.0.0.1:{port}", log
        finally:
            print(log.read_text("utf8", "replace")[-3000:])
            server.terminate()
            server.wait(60)


def test_its_texts_are_ours_and_its_rounds_as_reported(vllm: tuple[str, Path]) -> None:
    address, log = vllm
    source = attach(address, lambda *_: None).source
    ours = load_rig("demo", "float32")
    watch, rounds, accepted = CounterHistory(source.server), 0, 0  # type: ignore[attr-defined]
    watch.sample()
    for prompt in PROMPTS:
        theirs = trace_from_lines(source.prepare(PromptRequest(prompt, method=SERVED, max_tokens=200)).lines())
        expected = trace_from_lines(ours.run(PromptRequest(
            prompt, method="dflash", budget=15, max_tokens=200, drafters=("math",))))
        comparison = two_runs(expected, theirs)
        print(comparison["summary"], [side["rows"] for side in comparison["sides"]], theirs.end.note)
        assert comparison["same_text"] and theirs.header.request.prompt_ids == expected.header.request.prompt_ids
        rounds += len(theirs.entries)
        accepted += int(re.search(r"(\d+) of \d+ drafted", theirs.end.note)[1])  # type: ignore[index]
    time.sleep(LOGGED_SECONDS)
    counted = traffic(watch.sample())[-1]
    print(f"{rounds} rounds, {accepted} drafted tokens accepted: 1 + {accepted}/{rounds} = {1 + accepted / rounds:.3f}")
    assert (counted.drafts, counted.accepted) == (rounds, accepted)
    assert "SpecDecoding metrics" in log.read_text("utf8", "replace")


def test_the_page_runs_it_beside_our_own_rig(
        vllm: tuple[str, Path], browser: Any, tmp_path: Path) -> None:  # noqa: F811
    results = str(tmp_path / "results.sqlite")
    with served("app.py", "--port", PORT, "--rig", "demo", "--results", results) as url, visit(browser, url) as watched:
        page = watched.open(f"{url}#mode=workbench")
        wait(page, SETTLED)
        ours = run(page, PROMPTS[0], "dflash")
        page.locator(".cs-rig").click()
        page.get_by_label("Your own rig").fill(vllm[0])
        page.evaluate("window.before = true")
        page.get_by_role("button", name="Load", exact=True).click()
        wait(page, f"!window.before && {SETTLED}")  # it opens anew
        named = f"(document.querySelector('.cs-rig') || document.body).innerText.includes('demo at {vllm[0]}')"
        wait(page, named)
        theirs = run(page, PROMPTS[0], SERVED)
        comparison = page.evaluate("(runs) => Canopy.parts.stage.server.two_runs(runs)",
                              {"first": {"run": ours}, "second": {"run": theirs}})
        print(comparison["said"], [(side["tau"], side["lengths"]) for side in comparison["sides"]])
        assert comparison["same_text"] and comparison["same_prompt"]
        assert page.get_by_text("vLLM's own figures:").count() == 1
        assert page.get_by_text("Not recorded by this engine").count() == 1, "the marginals"
        page.screenshot(path=str(tmp_path / "attached.png"))
        see_the_tab(page, tmp_path)
    print(tmp_path)


def run(page: Any, prompt: str, method: str) -> str:
    """Ask in the bar; the run's name once it has ended."""
    page.locator("#canopy-prompt textarea").fill(prompt)
    if (field := page.locator("#canopy-method input")).input_value() != method:
        field.click()
        page.get_by_role("option", name=method, exact=True).click()
    before = page.evaluate("Canopy.parts.stage.value.run")
    page.get_by_role("button", name="▶ Run").click()
    wait(page, f"Canopy.parts.stage.state === 'done' && Canopy.parts.stage.value.run !== {json.dumps(before)}")
    assert page.evaluate("Canopy.parts.stage.header.method") == method
    return str(page.evaluate("Canopy.parts.stage.value.run"))


def wait(page: Any, condition: str) -> None:
    page.wait_for_function(f"window.Canopy && {condition}", timeout=240_000)


def see_the_tab(page: Any, folder: Path) -> None:
    """The lab's tab of the server: its counters, and a press of the button."""
    page.evaluate("Canopy.parts.stage.setMode('lab')")
    page.get_by_role("tab", name="Load", exact=True).click()
    page.wait_for_selector("[data-plot=places] .main-svg")
    assert "vLLM 0.32.0, demo: all of its requests." in page.locator(".lab-pane-load .lab-note").inner_text()
    page.get_by_role("button", name="Measure requests at once").click()
    page.wait_for_selector("[data-plot=concurrency] .main-svg", timeout=400_000)
    print(page.locator("[data-plot=concurrency] .lab-canvas").get_attribute("aria-label"))
    wait(page, "document.querySelector('[data-plot=traffic] .main-svg')")
    page.screenshot(path=str(folder / "server.png"))
