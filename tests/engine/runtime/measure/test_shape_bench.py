"""The benchmark on random weights: what it forces, what it counts, and its last line."""

from __future__ import annotations

import json
from itertools import islice

import pytest
import torch

from engine.commands.program import main
from engine.records import Request
from engine.runtime.graphs.steps import HostSteps
from engine.runtime.measure.plain import PlainState
from engine.runtime.measure.shape_bench import ForcedPlain, Trial, plain_ms, prefix_bytes, weight_bytes
from engine.runtime.measure.shapes import SHAPES, parameters_of, random_pair


@pytest.fixture(scope="module")
def trial() -> Trial:
    target, drafter = random_pair(SHAPES["tiny"], torch.float32, torch.device("cpu"))
    return Trial(target, drafter, 1, 40, 3)


def test_published_shapes_have_the_published_sizes() -> None:
    billions = {name: round(parameters_of(SHAPES[name]) / 1e9, 1) for name in ("qwen3-8b", "qwen3-4b", "llama3.1-8b")}
    assert billions == {"qwen3-8b": 9.2, "qwen3-4b": 4.6, "llama3.1-8b": 9.2}  # 8.2, 4.0 and 8.0 without the heads


def test_acceptance_is_forced_alike_in_both_loops(trial: Trial) -> None:
    machine = trial.machine("ddtree", 24)
    with torch.inference_mode():
        machine.round.run(256)
    board = machine.round.board
    assert int(board.rows.depths.max()) >= 3, "a tree without depth cannot be forced"
    assert int(board.kept.count) == 4
    assert int(board.length) == 44
    loop = ForcedPlain(trial.target, trial.drafter, 3)
    request = Request(tuple(token % 251 for token in range(40)), "ddtree", 24, 99)
    assert [len(tokens) for tokens in islice(loop.rounds(request, loop.open(request)), 2)] == [4, 4]


def test_measuring_steps_leaves_the_text_where_it_stands(trial: Trial) -> None:
    machine = trial.machine("ddtree", 8)
    found = HostSteps(machine.round, 256).measured(2)
    assert int(machine.round.board.length) == 40
    assert list(found) == ["draft", "build", "pack", "verify", "choose", "accept", "keep", "observe", "advance"]
    assert all(milliseconds > 0 for milliseconds in found.values())
    assert plain_ms(trial, 8) > 0


def test_rounds_of_the_plain_loop_are_measured_behind_one_prefix(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    draft = ForcedPlain._draft

    def noted(loop: ForcedPlain, state: PlainState) -> torch.Tensor:
        lengths.append(state.length)
        return draft(loop, state)

    monkeypatch.setattr(ForcedPlain, "_draft", noted)
    plain_ms(trial, 8)
    assert lengths[0] == 40 and set(lengths[1:]) == {44}


def test_bytes_are_counted_from_the_tensors(trial: Trial) -> None:
    target, drafter = weight_bytes(trial)
    output_head = 512 * 32 * 4
    assert target == sum(value.nbytes for value in trial.target.model.parameters())  # tied: read as the output head
    assert drafter == sum(value.nbytes for value in trial.drafter.model.parameters()) + output_head
    assert prefix_bytes(trial) == (2 * 3 * 2 * 16 * 40 * 4, 2 * 2 * 2 * 16 * 40 * 4)


def test_the_command_prints_a_table_and_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--shape", "tiny", "--random", "--budgets", "4", "9", "--rounds", "2", "--context", "30",
             "--accepted", "2", "--dtype", "float32"]
    assert main(["bench", *given]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "acceptance forced at 2" in printed[0]
    found = json.loads(printed[-1])
    assert (found["weights"], found["acceptance"]) == ("random", "forced")
    assert [row["budget"] for row in found["points"]] == [4, 9]
    assert all(row["accepted_forced"] == 2 and row["floor_share"] > 0 for row in found["points"])


def test_what_cannot_be_measured_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--shape", "huge", "--random"]) == 2
    assert capsys.readouterr().err.startswith("--shape is 'huge'; choose one of qwen3-8b,")
    assert main(["bench", "--shape", "tiny", "--random", "--context", "2000"]) == 1
    assert capsys.readouterr().err == "The prefix has 2000 tokens; this shape takes from 1 to 1018.\n"
