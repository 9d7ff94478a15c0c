"""What ``test_extensions`` runs in its copy of the tree, to which one of each kind of thing was added: in the loop, in
the lab, as a server, on the page and as a drafter."""

import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine.decoding.methods import METHODS
from engine.records import PromptRequest
from engine.trace import committed_ids, gather
from explorer.attached import attach
from explorer.bundle import STAGE, script
from explorer.lab.lab import Lab
from explorer.page import build
from explorer.recordings import Library
from explorer.run_queue import RunQueue
from tests.engine.servers.scripted_server import DONE, chunk, event, says, scripted, streams
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_lab import FORM
from tests.explorer.scripted_rigs import answering
from tests.running import until


def runs_in_the_loop() -> None:
    paired, plain = ([entry.round for entry in scripted_trace(method, 8).entries]
                     for method in ("paired", "autoregressive"))
    assert committed_ids(paired) == committed_ids(plain)
    assert max(len(round_.tree) for round_ in paired) == 3, "by the new builder, combiner and acceptance rule"


def runs_in_the_lab(folder: Path) -> None:
    instruments = ScriptedInstruments()
    instruments.laboratory.methods = tuple(METHODS)
    lab = Lab(answering(None, instruments), scripted_trace, RunQueue(), folder / "results.sqlite")
    given = lab.given()
    assert "paired" in given["options"]["methods"] and given["options"]["summaries"]["paired"] == "Two guesses a round."
    lab.start({**FORM, "methods": ["paired"], "prompts": 1})
    until(lambda: lab.progress({})["state"] in ("done", "error"))
    curves: Any = lab.curves({})
    rows = curves["table"]["rows"]
    assert {row["method"] for row in rows} == {"autoregressive", "paired"}
    assert all(row["same_text"] == row["compared"] > 0 for row in rows)
    colors: Any = {name: look["color"] for name, look in given["looks"].items()}
    color = colors.pop("paired")
    assert color not in colors.values()
    assert {line["line"]["color"] for line in curves["curves"]["figure"]["data"]
            if str(line.get("name")).startswith("paired")} == {color}
    style = Path("assets/lab/lab.css").read_text("utf8")
    assert style.count(f"{color[4:-1]}:") == 2, "in light and in dark"


def is_a_kind_of_server() -> None:
    report = event(choices=[], mine={"kept": [1], "tried": [4]})
    tokens = chunk("b", logprobs={"content": [{"token": "b"}, {"token": "c"}]})
    with scripted(models=says('{"data": [{"id": "m", "owned_by": "me"}]}'),
                  chat=streams(chunk("a"), tokens, report, DONE)) as server:
        source = attach(server.address, lambda *_: None).source
        trace = gather(source.run(PromptRequest("x", method="served")))
    assert trace.end and (trace.header.engine, trace.end.said) == ("Mine", "Mine reports.")
    assert [len(entry.round.tree) for entry in trace.entries] == [5]


def is_on_the_page() -> None:
    blocks: Any = build(answering(), Library([])).blocks.values()
    (choices,) = (block.choices for block in blocks if getattr(block, "elem_id", "") == "canopy-method")
    assert "paired" in [value for _, value in choices]
    modules = re.findall(r'^modules\["(.+?)"\] = ', script(STAGE), re.MULTILINE)
    stage, ink, cache, pulse, mount = (modules.index(name) for name in (
        "stage/stage.js", "shared/ink.js", "panels/cache.js", "panels/pulse.js", "stage/mount.js"))
    assert ink < cache < pulse < mount and stage < mount
    text = Path("assets/stage/mount.js").read_text("utf8")
    assert not [name for name in ("tree", "marginals", "mask", "verifier", "cache", "batch") if f'"{name}"' in text]


def is_a_kind_of_drafter_and_checked(folder: Path) -> None:
    from engine.commands.check import lossless_points
    from engine.drafters.kinds import TargetFacts, plan_drafter
    (folder / "config.json").write_text(json.dumps({"model_type": "echo"}))
    target: Any = SimpleNamespace(vocab_size=50)
    plan = plan_drafter(folder, TargetFacts(folder, target))
    nothing: Any = None
    assert type(plan.load(nothing)).__name__ == "NGramDrafter", "the new kind recognised its config.json"
    checked = [method for method, _ in lossless_points()]
    assert "paired" in checked and "nanogpt_ratio" not in checked


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        runs_in_the_loop()
        runs_in_the_lab(Path(name))
        is_a_kind_of_server()
        is_on_the_page()
        is_a_kind_of_drafter_and_checked(Path(name))
