"""``python -m engine sweep`` as typed: once on the demo rig, otherwise on the toy."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.commands import sweep
from engine.commands.program import main, verb_parser
from engine.commands.sweep import plan_of, table
from engine.errors import RequestError
from engine.lab.reading import Reading
from engine.lab.report import Record, sweep_command
from engine.lab.settings import SHIPPED, SweepPlan
from engine.lab.store import Results
from engine.records import PromptRequest
from tests.engine.lab.scripted import REFUSED_PROMPT, ScriptedLaboratory, measure_all, report_of, toy_plan

SMALL = ("--methods", "ddtree", "joint", "--budgets", "16", "4", "16", "--limit", "2", "--repeats", "1",
         "--max-tokens", "16")


@pytest.fixture()
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Provide a function that runs the verb in an empty folder on the toy and returns the exit status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep, "laboratory", lambda rig, dtype: ScriptedLaboratory())

    def run(*words: str) -> int:
        return main(["sweep", *words])

    return run


def last_line(capsys: pytest.CaptureFixture[str]) -> Any:
    """Return the JSON object that was printed last."""
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.usefixtures("quick_curves")
def test_a_sweep_runs_on_the_demo_rig(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.json"
    assert main(["sweep", "--rig", "demo", "--methods", "ddtree", "--budgets", "8", "--prompts", "bench", "--limit",
                 "1", "--repeats", "1", "--max-tokens", "12", "--dtype", "float32", "--out",
                 str(tmp_path / "results.sqlite"), "--report", str(page)]) == 0
    *table, last = capsys.readouterr().out.strip().split("\n")
    result = json.loads(last)
    assert [row["label"] for row in result["rows"]] == ["autoregressive", "ddtree 8"]
    assert [row["same_text"] for row in result["rows"]] == [1, 1]
    assert result["rows"][1]["tau"] > 1 == result["rows"][0]["tau"]
    assert any(line.startswith("ddtree 8 ") for line in table)
    full = json.loads(page.read_text())
    assert {**full, **result} == full
    assert full["acceptance"] and full["calibration"] and full["histograms"]


def test_a_sweep_with_a_refused_prompt_still_has_its_table(
        typed: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.jsonl").write_text('{"prompt": "!"}\n{"prompt": "short"}\n')
    assert typed(*SMALL, "--prompts", "two.jsonl", "--csv", "table.csv") == 1
    *text, last = capsys.readouterr().out.splitlines()
    assert REFUSED_PROMPT in "\n".join(text) and Path("table.csv").exists()
    assert any(row["runs"] and row["failed"] for row in json.loads(last)["rows"])


def test_a_sweep_prints_a_table_and_a_json_line(
        typed: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(*SMALL, "--csv", "table.csv", "--runs-csv", "runs.csv") == 0
    result = last_line(capsys)
    assert [row["label"] for row in result["rows"]] == [
        "autoregressive", "ddtree 4", "ddtree 16", "joint 4", "joint 16"]
    assert (result["done"], result["complete"]) == (10, True)
    assert len(Path("table.csv").read_text().splitlines()) == 1 + 5
    assert len(Path("runs.csv").read_text().splitlines()) == 1 + 10


@pytest.mark.parametrize(("flags", "first", "second"), [
    (("--csv", "./results.sqlite"), "--out", "--csv"), (("--report", "link"), "--out", "--report"),
    (("--csv", "results.sqlite-wal"), "--out", "--csv"), (("--report", "results.sqlite-shm"), "--out", "--report"),
    (("--csv", "results.sqlite.lock"), "--out", "--csv"), (("--csv", "beside"), "--out", "--csv"),
    (("--csv", "mine", "--prompts", "mine"), "--prompts", "--csv"),
    (("--csv", "linked", "--prompts", "mine"), "--prompts", "--csv"),
    (("--csv", str(SHIPPED / "bench.jsonl")), "--prompts", "--csv"),
    (("--csv", "a", "--runs-csv", "a"), "--csv", "--runs-csv")])
def test_no_output_overwrites_the_results_or_the_prompts(
        typed: Callable[..., int], capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], first: str, second: str
        ) -> None:
    Path("mine").write_text('{"prompt": "hi"}\n')
    for link, target in (("link", "results.sqlite"), ("beside", "results.sqlite-wal"), ("linked", "mine")):
        Path(link).symlink_to(target)
    assert typed(*SMALL) == 0
    assert typed("--resume", *flags) == 1
    assert typed(*SMALL, *flags) == 1
    assert Path("mine").read_text() == '{"prompt": "hi"}\n'
    printed = capsys.readouterr().err
    assert first in printed and second in printed
    with Results(Path("results.sqlite")) as results:
        assert results.sweeps()[-1].done == len(results.sweeps()[-1].plan)


def test_an_interrupted_sweep_resumes_with_its_own_settings(
        typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(ScriptedLaboratory):
        def measure(self, ask: PromptRequest) -> Reading:
            if len(self.asked) == 5 + 4:  # five warm-up runs
                raise KeyboardInterrupt
            return super().measure(ask)

    monkeypatch.setattr(sweep, "laboratory", lambda rig, dtype: Interrupted())
    assert typed(*SMALL) == 130
    printed = capsys.readouterr().err
    assert "results.sqlite" in printed and "--resume" in printed
    with Results(Path("results.sqlite")) as results:
        assert [stored.done for stored in results.sweeps()] == [4]
    monkeypatch.setattr(sweep, "laboratory", lambda rig, dtype: ScriptedLaboratory())
    assert typed("--resume") == 0
    result = last_line(capsys)
    assert (result["sweep"], result["done"], result["complete"]) == (1, 10, True)
    assert typed(*SMALL) == 0  # without --resume, a new sweep
    assert last_line(capsys)["sweep"] == 2


@pytest.mark.parametrize(("words", "named"), [
    (("--methods", "nanogpt"), ("nanogpt", "autoregressive")),
    (("--drafters", "nosuch", "--methods", "ddtree"), ("'nosuch'", "math, code")),
    (("--prompts", "novels"), ("'novels'", "bench")), (("--resume",), ("results.sqlite",))])
def test_invalid_options_are_one_sentence_and_exit_status_one(
        typed: Callable[..., int], words: tuple[str, ...], named: tuple[str, ...], capsys: pytest.CaptureFixture[str]
        ) -> None:
    assert typed(*words) == 1
    printed = capsys.readouterr()
    assert all(name in printed.err.strip().split("\n")[-1] for name in named)
    assert printed.out == "" and not Path("results.sqlite").exists(), "refused before anything is measured or written"


def test_a_table_whose_folder_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=rf"table\.csv.*'{tmp_path / 'gone'}'"):
        sweep.write(tmp_path / "gone" / "table.csv", "text")


ALONE = replace(toy_plan(prompts=4, methods=("dflash", "merged")), prompt_set="bench")
AT_ONCE = replace(toy_plan(prompts=7, repeats=1, methods=("ddtree",), budgets=(4, 16), concurrency=(1, 2, 4)),
                  prompt_set="bench")


@pytest.fixture(scope="module")
def alone() -> Record:
    return report_of(ALONE, measure_all(ALONE))


RICH = plan_of(verb_parser("sweep").parse_args([
    "--methods", "merged", "dflash", "--budgets", "8", "auto", "32", "--split", "each", "--drafters", "math", "code",
    "--temperature", "0.7", "--top-k", "20", "--seed", "3", "--limit", "2"]))


@pytest.mark.parametrize("plan", [RICH, ALONE, AT_ONCE], ids=["rich", "alone", "at once"])
def test_the_command_of_a_sweep_repeats_the_sweep(plan: SweepPlan) -> None:
    words = shlex.split(sweep_command(plan))
    assert words[:4] == ["python", "-m", "engine", "sweep"]
    again = plan_of(verb_parser("sweep").parse_args(words[4:]))
    assert replace(again, prompts=plan.prompts) == plan and len(again.prompts) == len(plan.prompts)


def test_the_recommended_command_of_a_report_has_its_setting(alone: Record) -> None:
    words = shlex.split(alone["recommended"]["command"])
    assert words[:3] == ["python", "-m", "engine"] and alone["command"] == sweep_command(ALONE)
    args = verb_parser(words[3]).parse_args(words[4:])
    assert (args.method, args.budget, args.prompt) == (
        alone["recommended"]["method"], alone["recommended"]["budget"], ALONE.prompts[0].text)


def test_the_table_has_each_category_and_break_even_values(alone: Record) -> None:
    shown = table(alone)
    for category, rows in alone["categories"].items():
        part = shown.split(f"{category}:\n")[1].split("\n\n")[0].splitlines()[1:]
        for line, row in zip(part, rows, strict=True):
            figures = (row["tau"], row["break_even"], row["modelled_break_even"])
            assert row["label"] in line and all(f"{figure:.2f}" in line for figure in figures if figure is not None)
    # a round of n + 1 rows takes 1 + 0.01 (n + 1) ms, a plain one 1.01 ms
    four = next(row for row in alone["rows"] if (row["method"], row["budget"]) == ("merged", 4))
    assert [four["break_even"], four["modelled_break_even"]] == pytest.approx([1.05 / 1.01] * 2, rel=0.01)
    assert "even:" not in table({**alone, "categories": {"even": alone["categories"]["even"]}})
