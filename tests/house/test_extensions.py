"""A new method, kind of server or kind of drafter needs one object and its entry in a table, and no other change."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.decoding.acceptance import walk
from engine.decoding.methods import METHODS, Method
from engine.decoding.tree import from_nodes
from engine.records import DraftTree, Lattice, PromptRequest
from engine.servers.kinds import KINDS, ServerKind
from engine.trace import committed_ids, trace_from_lines
from explorer.attached import attach
from explorer.lab.style import style_of
from explorer.types import methods_module
from tests.engine.servers.scripted_server import DONE, chunk, event, says, scripted, streams
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_lab import FORM, lab_at, measure

pytestmark = pytest.mark.slow
STYLES = Path(__file__).parents[2] / "assets" / "stage.css"


def pair(lattice: Lattice, root: int, nodes: int) -> DraftTree:
    """Return a tree with at most two drafted nodes, both children of the root."""
    count = min(nodes, 2, lattice.tokens.shape[-1])
    return from_nodes(root, lattice.tokens[0, 0, :count], np.zeros(count, np.int32), lattice.logprobs[0, 0, :count])


PAIRED = Method(1, build=pair, combine=lambda trees, budget: trees[0], accept=walk, summary="Two guesses a round.")


def test_a_new_method_decodes_and_is_measured_in_the_lab(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "paired", PAIRED)
    paired, plain = (scripted_trace(method, 8).rounds for method in ("paired", "autoregressive"))
    assert committed_ids(paired) == committed_ids(plain) and max(len(round_.tree) for round_ in paired) == 3

    instruments = ScriptedInstruments()
    instruments.laboratory.methods = tuple(METHODS)
    lab = lab_at(tmp_path, instruments=instruments)
    assert "paired" in lab.setup()["methods"] and PAIRED.summary in methods_module()
    measure(lab, {**FORM, "methods": ["paired"], "prompts": 1})
    curves: Any = lab.curves({})
    rows = curves["table"]["rows"]
    assert {row["method"] for row in rows} == {"autoregressive", "paired"}
    assert all(row["same_text"] == row["compared"] > 0 for row in rows)
    color = style_of("paired").color
    assert color not in {style_of(method).color for method in METHODS if method != "paired"}
    assert {line["line"]["color"] for line in curves["curves"]["figure"]["data"]
            if str(line.get("name")).startswith("paired")} == {color}
    variable = color.removeprefix("var(").removesuffix(")")
    assert STYLES.read_text("utf8").count(f"{variable}:") == 2, "a colour in light and one in dark"


def test_a_new_kind_of_server_is_recognised_and_its_report_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ServerKind("Mine", "me", reports={("mine",): {
        "accepted_per_step": "kept", "drafted_per_step": "tried", "total_drafted": "sum"}})
    monkeypatch.setattr("engine.servers.server.KINDS", {**KINDS, "mine": mine})
    reported = event(choices=[], mine={"kept": [1], "tried": [4], "sum": 4})
    with scripted(models=says('{"data": [{"id": "m", "owned_by": "me"}]}'),
                  chat=streams(chunk("a"), chunk("b", "b", "c"), reported, DONE)) as server:
        source = attach(server.address, lambda *_: None).source
        trace = trace_from_lines(source.prepare(PromptRequest("x", method="served")).lines())
    assert trace.header.engine == "Mine" and "of 4 drafted" in trace.end.note
    assert [len(entry.round.tree) for entry in trace.entries] == [5]


def test_a_new_kind_of_drafter_is_recognised_by_its_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.drafters import kinds
    from engine.drafters.ngram import NGramDrafter
    echo = SimpleNamespace(
        recognises=lambda values: values.get("model_type") == "echo",
        plan=lambda folder, target: kinds.DrafterPlan((), lambda _: NGramDrafter(target.config.vocab_size)))
    monkeypatch.setattr(kinds, "KINDS", ("echo", *kinds.KINDS))
    monkeypatch.setitem(sys.modules, "engine.drafters.echo", echo)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "echo"}))
    target: Any = SimpleNamespace(vocab_size=50)
    plan = kinds.plan_drafter(tmp_path, kinds.TargetFacts(tmp_path, target))
    nothing: Any = None
    assert isinstance(plan.load(nothing), NGramDrafter)
