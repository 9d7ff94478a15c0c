"""Records of other tools as runs: their values are kept, and missing ones are not made up."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adapters import aiperf, llama_spec_dump
from adapters.imports import command
from engine.recorder import UNKNOWN_TOKEN
from engine.trace import load, tau
from tests.running import ROOT

RECORD = {"engine": "vllm", "mean_acceptance_length": 3.0, "draft_acceptance_rate": 0.5,
          "acceptance_histogram": {"0": 1, "2": 1, "4": 1}, "num_accepted_draft_tokens": 6, "num_draft_tokens": 12,
          "num_spec_steps": 3, "num_spec_tokens": 4}
DETAILED = {**RECORD, "per_step_accepted": [2, 0, 4], "per_step_drafted": [4, 3, 5]}
STEP = {"step": 1, "seq": 3, "n_draft": 3, "n_accepted": 2, "pmin_drop": 0, "pos": [
    {"i": 0, "tok": 292, "p": 0.97, "logp": -0.03, "acc": True, "top": [{"tok": 292, "p": 0.97}, {"tok": 65, "p": 0}]},
    {"i": 1, "tok": 7, "p": 0.5, "logp": -0.7, "acc": True, "top": [{"tok": 7, "p": 0.5}, {"tok": 9, "p": 0.4}]},
    {"i": 2, "tok": 8, "p": 0.4, "logp": -0.9, "acc": False, "top": [{"tok": 8, "p": 0.4}, {"tok": 1, "p": 0.3}]}]}


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf8")
    return path


def test_steps_of_aiperf_become_chains_of_unknown_tokens(tmp_path: Path) -> None:
    source = written(tmp_path / "profile_export.jsonl", {"metadata": {}, "spec_decode_acceptance": DETAILED},
                     {"metadata": {}}, {"metadata": {}, "spec_decode_acceptance": RECORD})
    detailed, counted = map(load, aiperf.convert(source, tmp_path))
    rounds = detailed.rounds
    assert [len(round_.tree) - 1 for round_ in rounds] == DETAILED["per_step_drafted"]
    assert [len(round_.acceptance.keep) - 1 for round_ in rounds] == DETAILED["per_step_accepted"]
    assert tau(rounds) == RECORD["mean_acceptance_length"]
    assert set(rounds[0].tree.tokens.tolist()) == {UNKNOWN_TOKEN}
    assert detailed.entries[0].pieces == {UNKNOWN_TOKEN: "⟨?⟩"}
    assert (detailed.header.engine, detailed.header.note) == ("vllm", "")
    assert tau(counted.rounds) == RECORD["mean_acceptance_length"]
    assert counted.header.note == aiperf.UNORDERED


def test_a_dump_of_llama_cpp_keeps_tokens_and_probabilities(tmp_path: Path) -> None:
    source = written(tmp_path / "dump.jsonl", STEP, {**STEP, "seq": 4, "n_accepted": 0}, {**STEP, "step": 2})
    third, fourth = map(load, llama_spec_dump.convert(source, tmp_path))
    round_ = third.entries[0].round
    assert (len(third.entries), len(fourth.entries)) == (2, 1)
    assert round_.tree.tokens.tolist() == [UNKNOWN_TOKEN, 292, 7, 8]
    np.testing.assert_allclose(round_.tree.logprobs, [0, -0.03, -0.73, -1.63], atol=1e-6)
    assert round_.acceptance.keep.tolist() == [0, 1, 2]
    assert round_.drafts[0].tokens[:, 0].tolist() == [[292, 65], [7, 9], [8, 1]]
    assert round_.drafts[0].logprobs[0, 0, 1] == -np.inf


@pytest.mark.parametrize("convert", [aiperf.convert, llama_spec_dump.convert])
@pytest.mark.parametrize("lines", [
    [], ["x"], [{"a": 1}], [7], [{"spec_decode_acceptance": {"engine": "x"}}],
    [{"spec_decode_acceptance": {**DETAILED, "per_step_accepted": [9, 9, 9]}}],
    [{"spec_decode_acceptance": {**DETAILED, "per_step_accepted": [1]}}], [{**STEP, "n_accepted": 9}],
    [{**STEP, "pos": 7}]])
def test_another_file_is_refused_by_its_name(convert: object, lines: list[object], tmp_path: Path) -> None:
    source = written(tmp_path / "file.jsonl", *lines)
    with pytest.raises(ValueError, match="file.jsonl"):
        convert(source, tmp_path)  # type: ignore[operator]


def test_the_command_lines_print_the_number_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(tmp_path / "profile_export.jsonl", {"spec_decode_acceptance": DETAILED})
    assert command([str(source), str(tmp_path)], "adapters.aiperf", aiperf.convert) == 0
    assert "1 runs in" in capsys.readouterr().out
    assert command([str(source), str(tmp_path)], "adapters.llama_spec_dump", llama_spec_dump.convert) == 1
    assert "LLAMA_SPEC_DUMP" in capsys.readouterr().err
    assert command([str(tmp_path / "none"), str(tmp_path)], "adapters.aiperf", aiperf.convert) == 1
    assert subprocess.run([sys.executable, "-m", "adapters.aiperf"], cwd=ROOT, check=False).returncode == 2
