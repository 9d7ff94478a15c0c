"""What a run leaves the page as says the same as the run."""

import gzip
import io
import json
import os
import re

import networkx
import numpy as np
import pandas
import pytest

from engine.errors import RequestError
from engine.trace import dumps, joined, loads, pieces_of
from explorer.bundle import replay_page
from explorer.export import EXPORTS, export, rounds_table
from explorer.view import run_view
from tests.explorer.scripted import CODE, STORY, scripted_trace


def test_the_trace_file_is_the_trace() -> None:
    trace = scripted_trace("merged")
    made = export("trace", "run", trace, 0)
    assert made.name == "run.jsonl.gz"
    assert dumps(loads(made.data)) == dumps(trace) == gzip.decompress(made.data)


def test_the_table_has_a_row_a_round() -> None:
    trace = scripted_trace("joint")
    table = pandas.read_csv(io.BytesIO(export("rounds", "run", trace, 0).data), keep_default_na=False)
    assert table["tokens_kept"].tolist() == [len(entry.round.acceptance.keep) for entry in trace.entries]
    assert table["rows_verified"].tolist() == [len(entry.round.tree) for entry in trace.entries]
    first = trace.entries[0].round
    assert table["keep_indices"][0] == " ".join(map(str, first.acceptance.keep))
    assert table["verify_milliseconds"][0] == pytest.approx(1000 * first.seconds["verify"])
    assert {"mean_confidence_head_1", "mean_confidence_head_2"} <= set(rounds_table(trace).columns)


def test_the_columns_are_the_table() -> None:
    trace = scripted_trace("routed")
    made = pandas.read_parquet(io.BytesIO(export("columns", "run", trace, 0).data))
    pandas.testing.assert_frame_equal(made, rounds_table(trace))


@pytest.mark.parametrize("kind", EXPORTS)
def test_an_export_needs_no_disk(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever serves from a full disk can still hand out what a run came to."""
    def full(path: object, flags: int, *more: object, **named: object) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(28, "No space left on device")
        return opened(path, flags, *more, **named)  # type: ignore[arg-type]

    def write_nothing(path: object, mode: str = "r", *more: object, **named: object) -> object:
        if set(mode) & set("wax+"):
            raise OSError(28, "No space left on device")
        return read(path, mode, *more, **named)  # type: ignore[call-overload]

    trace, opened, read = scripted_trace("merged"), os.open, open
    monkeypatch.setattr(os, "open", full)
    monkeypatch.setattr("builtins.open", write_nothing)
    monkeypatch.setattr(io, "open", write_nothing)
    assert len(export(kind, "run", trace, 0).data) > 100


def test_the_graph_is_the_tree() -> None:
    trace = scripted_trace("merged", 24)
    made = trace.entries[3].round
    graph = networkx.parse_graphml(export("tree", "run", trace, 3).data.decode())
    assert graph.number_of_nodes() == len(made.tree)
    assert {(int(parent), int(child)) for parent, child in graph.edges} == {
        (int(made.tree.parents[node]), node) for node in range(1, len(made.tree))}
    kept = {int(node) for node, about in graph.nodes(data=True) if about["kept"]}
    assert kept == set(made.acceptance.keep.tolist())
    assert graph.nodes["1"]["probability"] == pytest.approx(float(np.exp(made.tree.logprobs[1])))


def test_the_replay_page_needs_nothing_else() -> None:
    trace = scripted_trace("joint")
    page = replay_page(run_view("run", (trace.header, *trace.entries, trace.end)))
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:|#)", page)
    assert not re.search(r"https?://(?!www\.w3\.org/|HOST:PORT)", page)
    data = re.search(r'id="canopy-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    view = json.loads(data.group(1))
    assert len(view["rounds"]) == len(trace.entries) and " </script>" in view["header"]["pieces"].values()


def test_unknown_forms_and_rounds_are_refused() -> None:
    trace = scripted_trace("ddtree")
    with pytest.raises(RequestError, match="trace, rounds, columns, tree, replay"):
        export("film", "run", trace, 0)
    with pytest.raises(RequestError, match="There is no round 1000"):
        export("tree", "run", trace, 999)
    assert tuple(EXPORTS) == ("trace", "rounds", "columns", "tree", "replay")


def test_characters_over_several_tokens_come_together() -> None:
    trace = scripted_trace("ddtree")
    token_ids = [token for entry in trace.entries for token in entry.round.committed.tolist()]
    assert joined(pieces_of(trace), token_ids).replace(" ", "") == (STORY + CODE).replace(" ", "")
