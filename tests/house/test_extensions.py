"""Contract 3: a builder, combiner, acceptance rule, method, drafter, server or panel is one new file (or folder) and
one registration line. One of each is added to a copy of the tree, and runs there: in the loop, in the lab, on the page.
"""

import difflib
import json
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
    "engine/decoding/builders/pair.py": '''
import numpy as np

from engine.decoding.tree import plant


def pair(lattice, root, nodes):
    """At most two drafted nodes, both children of the root."""
    count = min(nodes, 2, lattice.tokens.shape[-1])
    return plant(root, lattice.tokens[0, 0, :count], np.zeros(count, np.int32), lattice.logprobs[0, 0, :count])
''',
    "engine/decoding/combiners/first.py": "def first(trees, budget): return trees[0]\n",
    "engine/decoding/acceptance/strolling.py": "from engine.decoding.acceptance.walk import walk as strolling\n",
    "engine/drafters/echo/__init__.py": "",
    "engine/drafters/echo/checkpoint.py": '''
from engine.drafters.kinds import DrafterPlan, Kind
from engine.drafters.ngram import NGramDrafter

echo = Kind(recognises=lambda values: values.get("model_type") == "echo",
            plan=lambda folder, target: DrafterPlan((), lambda made: NGramDrafter(target.config.vocab_size)))
''',
    "engine/servers/mine.py": '''
from engine.servers.kind import ServerKind, ServerReport, counts, section


def _report(event):
    given = section(event, "mine")
    return given and ServerReport("Mine reports.", counts(given, "kept"), counts(given, "tried"), 4)


mine = ServerKind(title="Mine", owner="me", report=_report)
''',
    "assets/panels/pulse.js": '''
import { define } from "../stage/stage.js";

define({
  name: "pulse", title: "Pulse", caption: "Rows of the round.", place: { row: "lower", share: 0.5 },
  create: (host) => ({ draw(round) { host.textContent = round ? `${round.n} rows` : ""; }, select() {} }),
});
''',
}
# What a registration line said before, and what it says then.
NEW_LINES = {
    "engine/decoding/builders/__init__.py": ('"expand", "full"', '"expand", "full", "pair"'),
    "engine/decoding/combiners/__init__.py": ('"merged", "joint"', '"merged", "joint", "first"'),
    "engine/decoding/acceptance/__init__.py": ('"sequential", "ratio"', '"sequential", "ratio", "strolling"'),
    "engine/drafters/kinds.py": ('"engine.drafters", "dflash"', '"engine.drafters", "echo", "dflash"'),
    "engine/servers/__init__.py": ('"sglang", "llama_cpp"', '"sglang", "llama_cpp", "mine"'),
    "engine/decoding/methods.py": ('    "expand": Method(', '    "paired": Method(1, build="pair", combine="first", '
                          'accept="strolling", summary="Two guesses a round."),\n    "expand": Method('),
    "assets/panels/panels.js": ('import "./cache.js";\n', 'import "./cache.js";\nimport "./pulse.js";\n'),
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
    for name, (before, after) in NEW_LINES.items():
        old = (folder / name).read_text("utf8")
        assert old.count(before) == 1, f"{name} has no place for a registration line"
        (folder / name).write_text(old.replace(before, after), "utf8")
    return folder


def told(folder: Path, script: str) -> Any:
    """What a script, run in the copy, prints as its last line."""
    made = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False,
                          timeout=300,
                          env={**os.environ, "PYTHONPATH": str(folder), "GRADIO_ANALYTICS_ENABLED": "False"})
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NEW_LINES)
def test_a_registration_is_one_line(extended: Path, name: str) -> None:
    before, after = ((house / name).read_text("utf8").splitlines() for house in (HOUSE, extended))
    changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert sum(line[0] == "+" for line in changes) == 1 and sum(line[0] == "-" for line in changes) <= 1, changes


WITHOUT_TORCH = """
import json, re, tempfile
from pathlib import Path
from engine.decoding.methods import METHODS
from engine.records import PromptRequest
from engine.trace import committed_ids, gather
from explorer.attached import attach
from explorer.bundle import STAGE, script
from explorer.lab.service import LabService
from explorer.page import build
from explorer.recordings import Library
from explorer.run_queue import RunQueue
from tests.engine.servers.scripted_server import DONE, chunk, event, says, scripted, streams
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_lab import FORM
from tests.explorer.scripted_rigs import answering
from tests.running import until

def text(method):
    return committed_ids([entry.round for entry in scripted_trace(method, 8).entries])

instruments = ScriptedInstruments()
instruments.laboratory.methods = tuple(METHODS)
with tempfile.TemporaryDirectory() as folder:
    lab = LabService(answering(None, instruments), scripted_trace, RunQueue(), Path(folder) / "results.sqlite")
    given = lab.given()
    lab.start({**FORM, "methods": ["paired"], "prompts": 1})
    until(lambda: lab.progress({})["state"] in ("done", "error"))
    answer = lab.curves({})
looks, rows = given["looks"], answer["table"]["rows"]
page = build(answering(), Library([]))
offered = next(block for block in page.blocks.values() if getattr(block, "elem_id", "") == "canopy-method").choices
told = event(choices=[], mine={"kept": [1], "tried": [4]})
with scripted(models=says('{"data": [{"id": "m", "owned_by": "me"}]}'),
              chat=streams(chunk("a"), chunk("b", logprobs={"content": [{"token": "b"}, {"token": "c"}]}), told, DONE)
              ) as server:
    trace = gather(attach(server.address, lambda *_: None).source.run(PromptRequest("x", method="served")))
print(json.dumps({
    "same text": text("paired") == text("autoregressive"),
    "rows": max(len(entry.round.tree) for entry in scripted_trace("paired", 8).entries),
    "summary": given["options"]["summaries"]["paired"], "offered": ["paired" in given["options"]["methods"],
                                                                   "paired" in [value for _, value in offered]],
    "like it": [name for name in looks if name != "paired" and looks[name]["color"] == looks["paired"]["color"]],
    "color": looks["paired"]["color"], "measured": sorted({row["method"] for row in rows}),
    "same text measured": all(row["same_text"] == row["compared"] > 0 for row in rows),
    "drawn": sorted({line["line"]["color"] for line in answer["curves"]["figure"]["data"]
                     if str(line.get("name")).startswith("paired")}),
    "modules": re.findall(r'^modules\\["(.+?)"\\] = ', script(STAGE), re.M),
    "served": [trace.header.engine, [len(entry.round.tree) for entry in trace.entries], trace.end.said]}))
"""


@pytest.fixture(scope="module")
def seen(extended: Path) -> Any:
    return told(extended, WITHOUT_TORCH)


def test_a_new_method_runs_in_the_loop_and_in_the_lab(seen: Any, extended: Path) -> None:
    assert seen["same text"] and seen["rows"] == 3, "the new builder, combiner and acceptance rule made these rounds"
    assert seen["offered"] == [True, True] and seen["summary"] == "Two guesses a round."
    assert seen["measured"] == ["autoregressive", "paired"] and seen["same text measured"]
    assert seen["like it"] == [] and seen["drawn"] == [seen["color"]]
    style = (extended / "assets" / "lab" / "lab.css").read_text("utf8")
    assert style.count(f"{seen['color'][4:-1]}:") == 2, "in light and in dark"


def test_a_kind_of_server_is_one_file(seen: Any) -> None:
    assert seen["served"] == ["Mine", [5], "Mine reports."]


def test_the_page_carries_the_panel(seen: Any, extended: Path) -> None:
    order = ["stage/stage.js", "panels/ink.js", "panels/cache.js", "panels/pulse.js", "stage/mount.js"]
    places = [seen["modules"].index(name) for name in order]
    assert places[1] < places[2] < places[3] < places[4] and places[0] < places[3]
    mount = (extended / "assets" / "stage" / "mount.js").read_text("utf8")
    assert not [name for name in ("tree", "marginals", "mask", "verifier", "cache", "batch") if f'"{name}"' in mount]


WITH_TORCH = """
import json, tempfile
from pathlib import Path
from types import SimpleNamespace
from engine.commands.check import lossless_points
from engine.drafters.kinds import TargetFacts, plan_drafter

with tempfile.TemporaryDirectory() as name:
    (Path(name) / "config.json").write_text('{"model_type": "echo"}')
    plan = plan_drafter(Path(name), TargetFacts(Path(name), SimpleNamespace(vocab_size=50)))
print(json.dumps({"drafter": type(plan.load(None)).__name__, "checked": [method for method, _ in lossless_points()]}))
"""


def test_a_folder_is_a_kind_of_drafter_and_the_check_covers_the_method(extended: Path) -> None:
    found = told(extended, WITH_TORCH)
    assert found["drafter"] == "NGramDrafter", "the new kind recognised its config.json"
    assert "paired" in found["checked"] and "nanogpt_ratio" not in found["checked"]


@pytest.mark.long
def test_the_panel_appears_and_draws(extended: Path) -> None:
    conftest = pytest.importorskip("tests.browser.conftest")
    if not os.path.exists(conftest.CHROMIUM):
        pytest.skip(f"There is no Chromium at {conftest.CHROMIUM}; set CHROMIUM to one.")
    with served("-m", "tests.browser.serve", PORT, "0.01", folder=extended, PYTHONPATH=str(extended)) as url, \
            ThreadPoolExecutor(1) as own:  # Playwright keeps one loop a thread: other tests may have this one's
        names = own.submit(lower_panels, url, conftest).result()
    assert names == ["marginals", "mask", "verifier", "cache", "pulse", "batch"]


def lower_panels(url: str, conftest: Any) -> Any:
    """The panels of the lower row in a browser of this thread's own, once the new one has drawn."""
    with pytest.importorskip("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=conftest.CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(conftest.PATIENCE_MS)
        page.goto(f"{url}#mode=workbench")
        page.wait_for_selector(".cs-lower [data-panel=pulse] .cs-body:has-text('rows')")
        names = "[...document.querySelectorAll('.cs-lower [data-panel]')].map((frame) => frame.dataset.panel)"
        found = page.evaluate(names)
        browser.close()
        return found
