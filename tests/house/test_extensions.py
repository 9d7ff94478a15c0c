"""Contract 3: a builder, combiner, acceptance rule, method, drafter, server or panel is one new file (or folder) and
one registration line. One of each is added to a copy of the tree, and runs there: in the loop, in the lab, on the page.
"""

import difflib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.running import PORT, served

pytestmark = pytest.mark.slow  # a copy of the tree, and processes that load the page

HOUSE = Path(__file__).parents[2]
NEW_FILES = {
    "engine/decoding/pair.py": '''
import numpy as np

from engine.decoding.tree import plant


def pair(lattice, root, nodes):
    """At most two drafted nodes, both children of the root."""
    count = min(nodes, 2, lattice.tokens.shape[-1])
    return plant(root, lattice.tokens[0, 0, :count], np.zeros(count, np.int32), lattice.logprobs[0, 0, :count])
''',
    "engine/decoding/first.py": "def first(trees, budget): return trees[0]\n",
    "engine/decoding/strolling.py": "from engine.decoding.acceptance import walk as strolling\n",
    "engine/drafters/echo.py": '''
from engine.drafters.kinds import DrafterPlan, Kind
from engine.drafters.ngram import NGramDrafter

echo = Kind(recognises=lambda values: values.get("model_type") == "echo",
            plan=lambda folder, target: DrafterPlan((), lambda _: NGramDrafter(target.config.vocab_size)))
''',
    "engine/servers/mine.py": '''
from engine.servers.kind import ServerKind, ServerReport, counts, section


def _report(event):
    given = section(event, "mine")
    return given and ServerReport("Mine reports.", counts(given, "kept"), counts(given, "tried"), 4)


mine = ServerKind(title="Mine", owner="me", report=_report)
''',
    "assets/panels/pulse.js": '''
import { define } from "../shared/define.js";

define({
  name: "pulse", title: "Pulse", caption: "Rows of the round.", place: { row: "lower", share: 0.5 },
  create: (host) => ({ draw(round) { host.textContent = round ? `${round.n} rows` : ""; }, select() {} }),
});
''',
}
METHODS = "engine/decoding/methods.py"
IMPORT = "from engine.errors import RequestError\n"
# What is registered: where, what its line said before or the line above it, and what is there then.
NEW_LINES = {
    "builder": (METHODS, IMPORT, f"from engine.decoding.pair import pair\n{IMPORT}"),
    "combiner": (METHODS, IMPORT, f"from engine.decoding.first import first\n{IMPORT}"),
    "acceptance rule": (METHODS, IMPORT, f"from engine.decoding.strolling import strolling\n{IMPORT}"),
    "method": (METHODS, '    "expand": Method(', '    "paired": Method(1, build=pair, combine=first, accept=strolling, '
               'summary="Two guesses a round."),\n    "expand": Method('),
    "drafter": ("engine/drafters/kinds.py", '"engine.drafters", "dflash"', '"engine.drafters", "echo", "dflash"'),
    "server": ("engine/servers/__init__.py", '"sglang", "llama_cpp"', '"sglang", "llama_cpp", "mine"'),
    "panel": ("assets/panels/panels.js", 'import "./cache.js";\n', 'import "./cache.js";\nimport "./pulse.js";\n'),
}


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, without weights, to which one of each was added."""
    folder = tmp_path_factory.mktemp("house")
    for name in ("engine", "explorer", "tests", "assets"):
        shutil.copytree(HOUSE / name, folder / name,
                        ignore=shutil.ignore_patterns("*.safetensors", "__pycache__", "golden", "corpus"))
    shutil.copy(HOUSE / "app.py", folder)
    for name, text in NEW_FILES.items():
        assert not (folder / name).exists(), f"{name} has to be new"
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.lstrip(), "utf8")
    for name, before, after in NEW_LINES.values():
        old = (folder / name).read_text("utf8")
        assert old.count(before) == 1, f"{name} has no place for a registration line"
        (folder / name).write_text(old.replace(before, after), "utf8")
    return folder


@pytest.mark.parametrize("name", sorted({name for name, _, _ in NEW_LINES.values()}))
def test_a_registration_is_one_line(extended: Path, name: str) -> None:
    before, after = ((house / name).read_text("utf8").splitlines() for house in (HOUSE, extended))
    changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    registered = sum(file == name for file, _, _ in NEW_LINES.values())
    assert sum(line[0] == "+" for line in changes) == registered, changes
    assert sum(line[0] == "-" for line in changes) <= registered, changes


def test_one_of_each_runs_in_the_loop_in_the_lab_as_a_server_on_the_page_and_as_a_drafter(extended: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tests.house.extended"], cwd=extended, capture_output=True, text=True, check=False,
        timeout=300, env={**os.environ, "PYTHONPATH": str(extended), "GRADIO_ANALYTICS_ENABLED": "False"})
    assert process.returncode == 0, process.stderr


@pytest.mark.long
def test_the_panel_appears_and_draws(extended: Path) -> None:
    conftest = pytest.importorskip("tests.browser.conftest")
    if not os.path.exists(conftest.CHROMIUM):
        pytest.skip(f"There is no Chromium at {conftest.CHROMIUM}; set CHROMIUM to one.")
    with served("-m", "tests.browser.serve", PORT, "0.01", folder=extended, PYTHONPATH=str(extended)) as url, \
            ThreadPoolExecutor(1) as thread:  # Playwright keeps one loop a thread: other tests may have this one's
        names = thread.submit(lower_panels, url, conftest).result()
    assert names == ["marginals", "mask", "verifier", "cache", "pulse", "batch"]


def lower_panels(url: str, conftest: Any) -> Any:
    """The panels of the lower row in a browser of this thread's, once the new one has drawn."""
    with pytest.importorskip("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=conftest.CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(conftest.PATIENCE_MS)
        page.goto(f"{url}#mode=workbench")
        page.wait_for_selector(".cs-lower [data-panel=pulse] .cs-body:has-text('rows')")
        names = page.evaluate(
            "[...document.querySelectorAll('.cs-lower [data-panel]')].map((frame) => frame.dataset.panel)")
        browser.close()
        return names
