"""Files exported from a run have the same content as the run."""

import gzip
import io
import json
import os
import re

import networkx
import numpy as np
import pandas
import pytest

from engine.trace import Trace, dumps, loads
from explorer.export import EXPORTS, Download, export, rounds_table
from explorer.runs import RunLog
from tests.explorer.scripted import scripted_trace


def export_run(kind: str, method: str, number: int = 0) -> tuple[Trace, Download]:
    trace = scripted_trace(method)
    return trace, export(kind, RunLog.recorded("run", trace), number)


def test_the_trace_file_is_the_trace() -> None:
    trace, file = export_run("trace", "merged")
    assert file.name == "run.jsonl.gz"
    assert dumps(loads(file.data)) == dumps(trace) == gzip.decompress(file.data)


def test_the_table_has_one_row_for_each_round() -> None:
    trace, file = export_run("rounds", "joint")
    table = pandas.read_csv(io.BytesIO(file.data), keep_default_na=False)
    assert table["tokens_kept"].tolist() == [len(entry.round.acceptance.keep) for entry in trace.entries]
    assert table["rows_verified"].tolist() == [len(entry.round.tree) for entry in trace.entries]
    first = trace.entries[0].round
    assert table["keep_indices"][0] == " ".join(map(str, first.acceptance.keep))
    assert table["verify_milliseconds"][0] == pytest.approx(1000 * first.seconds["verify"])
    assert {"mean_confidence_drafter_1", "mean_confidence_drafter_2"} <= set(rounds_table(trace).columns)


@pytest.mark.parametrize("kind", EXPORTS)
def test_an_export_needs_no_disk(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose disk is full can still export runs."""
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
    assert len(export(kind, RunLog.recorded("run", trace), 0).data) > 100


def test_the_graph_is_the_tree() -> None:
    trace, file = export_run("tree", "merged", 3)
    round_, graph = trace.entries[3].round, networkx.parse_graphml(file.data.decode())
    assert graph.number_of_nodes() == len(round_.tree)
    assert {(int(parent), int(child)) for parent, child in graph.edges} == {
        (int(round_.tree.parents[node]), node) for node in range(1, len(round_.tree))}
    kept = {int(node) for node, about in graph.nodes(data=True) if about["kept"]}
    assert kept == set(round_.acceptance.keep.tolist())
    assert graph.nodes["1"]["probability"] == pytest.approx(float(np.exp(round_.tree.logprobs[1])))


def test_the_replay_page_needs_nothing_else() -> None:
    trace, file = export_run("replay", "joint")
    page = file.data.decode()
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:|#)", page)
    assert not re.search(r"https?://(?!www\.w3\.org/|HOST:PORT)", page)
    data = re.search(r'id="canopy-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    first, header, *_, end = map(json.loads, data.group(1).splitlines())
    assert first["state"] == "done" and data.group(1).count('{"round":') == len(trace.entries) == end["end"]["rounds"]
    assert " </script>" in header["header"]["pieces"].values()
