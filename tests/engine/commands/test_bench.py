"""The benchmark on the demo rig: auto is measured like a number, and beside plain decoding."""

import json

import pytest

from engine.commands.program import main

ASKED = ["bench", "--rig", "demo", "--dtype", "float32", "--limit", "1", "--repeats", "1", "--max-tokens", "16"]


@pytest.mark.slow
def test_auto_has_a_row_of_its_own_beside_numbers_and_plain_decoding(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--methods", "autoregressive", "ddtree", "--budgets", "4", "auto"]) == 0
    table, line = capsys.readouterr().out.rstrip().rsplit("\n", 1)
    points = json.loads(line)["points"]
    assert [(row["method"], row["budget"]) for row in points] == [
        ("autoregressive", 0), ("ddtree", 4), ("ddtree", "auto")]
    plain = points[0]["tokens_per_second"]
    assert all(row["times_plain"] == pytest.approx(row["tokens_per_second"] / plain, abs=0.001) for row in points)
    assert table.splitlines()[-1].split()[:2] == ["ddtree", "auto"]


@pytest.mark.parametrize(("flags", "reason"), [
    (["--methods", "plain", "--budgets", "auto"], "has no budget auto"),
    (["--concurrency", "1", "--budgets", "auto"], "auto is measured in any case")])
def test_where_auto_is_no_choice_the_reason_is_said(
        flags: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, *flags]) == 1
    assert reason in capsys.readouterr().err
