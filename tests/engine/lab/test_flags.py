"""Command-line flags for other engines, by the kind of the drafter, against values worked out by hand."""

import gzip
import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from engine.lab.anatomy import Anatomy, anatomy
from engine.lab.flags import NAMES, chain_flags, flags_of_run, flags_of_server
from engine.lab.machines import FLOOR, machine_curve
from engine.lab.redraft import CHAIN, MARGINALS, RedraftedLength
from engine.lab.statistics import Measured, share_of
from engine.trace import load

FLAT = replace(machine_curve("qwen3-8b", "H200", FLOOR), verify_ms=(1.0,) * 19, draft_ms=(0.0,) * 19,
               overhead_ms=0.0, plain_ms=1.0, rows=tuple(range(1, 20)))
STEEP = replace(FLAT, verify_ms=tuple(map(float, range(1, 20))))


def row(kind: str, budget: int, accepted: float) -> RedraftedLength:
    interval = Measured(accepted, accepted - 1, accepted + 1, 40)
    return RedraftedLength("one", kind, budget, interval, Measured(0, 0, 0, 40))


def run_of(kind: str) -> Anatomy:
    rows = (row(CHAIN, 4, 1.0), row(CHAIN, 8, 1.5), row(MARGINALS, 8, 2.0), row(MARGINALS, 16, 3.0))
    ranks = {0: share_of(5, 10), 1: share_of(1, 10), 2: share_of(1, 99)}
    return replace(anatomy([]), redrafts=rows, by_rank=ranks, kinds={"one": kind})


def test_the_flags_are_those_of_the_fastest_setting() -> None:
    free = {flags.engine: flags for flags in flags_of_run(run_of("eagle3"), FLAT)}
    steps = "--speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFTER --speculative-num-steps 8"
    assert free["SGLang"].flags == f"{steps} --speculative-eagle-topk 1 --speculative-num-draft-tokens 9"
    assert free["SGLang, a tree"].flags == f"{steps} --speculative-eagle-topk 2 --speculative-num-draft-tokens 17"
    assert free["Canopy"].flags == "--method ddtree --budget 16"
    assert "τ 4.00 (3.00 to 5.00)" in free["Canopy"].expected and "4.00× plain" in free["Canopy"].expected
    expensive = flags_of_run(run_of("eagle3"), STEEP)[0]
    assert '"num_speculative_tokens": 4' in expensive.flags
    assert flags_of_run(anatomy([]), FLAT) == []


@pytest.mark.parametrize("kind", NAMES)
def test_flags_depend_on_the_kind_of_the_drafter(kind: str) -> None:
    vllm, sglang, llama_cpp = NAMES[kind]
    flags = {row.engine: shlex.split(row.flags) for row in flags_of_run(run_of(kind), FLAT)}
    assert flags["SGLang"][1] == sglang and flags["SGLang"][-1] == "9"
    own = kind not in ("mtp", "ngram")
    assert ("DRAFTER" in flags["SGLang"]) == own
    config = json.loads(flags["vLLM"][1]) if vllm else {}
    assert config.get("method", "") == vllm and ("model" in config) == (own and bool(vllm))
    assert flags.get("llama.cpp", ["", ""])[1] == llama_cpp
    assert ("SGLang, a tree" in flags) == (kind not in ("dflash", "dspark"))
    assert ("unknown" in flags_of_run(run_of(kind), FLAT)[0].expected) == (kind == "")


def test_no_other_engine_runs_phrases() -> None:
    assert "phrases" not in NAMES
    (only,) = chain_flags("phrases", 4, "")
    assert only.flags == "" and "phrases" in only.expected


def test_a_recording_without_kinds_opens_and_its_flags_name_that(tmp_path: Path) -> None:
    header, *rounds = gzip.decompress(Path("assets/traces/arithmetic.jsonl.gz").read_bytes()).decode().splitlines()
    fields = json.loads(header)
    assert fields["header"].pop("drafter_kinds")
    (tmp_path / "former.jsonl").write_text("\n".join([json.dumps(fields), *rounds]), "utf8")
    trace = load(tmp_path / "former.jsonl")
    assert trace.header.drafter_kinds == ()
    rows = flags_of_run(anatomy([trace]), FLAT)
    assert rows and all("unknown" in row.expected for row in rows if row.engine != "Canopy")


def test_a_servers_flags_leave_out_positions_with_few_acceptances() -> None:
    vllm = flags_of_server([0.8, 0.6, 0.15, 0.05, 0.01], 50)[0]
    assert '"num_speculative_tokens": 3' in vllm.flags
    assert all(figure in vllm.expected for figure in ("2.55", "2.61", "50", "80%"))
    assert flags_of_server([0.01], 500)[0].flags == "" and flags_of_server([], 5) == []
