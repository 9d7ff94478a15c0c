"""A sweep's report on the command line: its table for people, its predictions, and the commands that it names, which
the command line understands as they are meant."""

from __future__ import annotations

import shlex
from dataclasses import replace
from threading import Event

import pytest

from engine.commands.program import verb_parser
from engine.commands.sweep import plan_of, prediction, table
from engine.lab.report import Record, report, run_command, sweep_command
from engine.lab.settings import CellResult, SweepPlan, measuring_order
from engine.lab.store import StoredSweep
from engine.lab.sweeping import LocalCrew, task_of
from tests.engine.lab.scripted import ScriptedLaboratory, toy_plan

LABORATORY = ScriptedLaboratory()
ALONE = replace(toy_plan(prompts=4, methods=("dflash", "merged")), prompt_set="bench")
AT_ONCE = replace(toy_plan(prompts=7, repeats=1, methods=("ddtree",), budgets=(4, 16), concurrency=(1, 2, 4)),
                  prompt_set="bench")


def measured(plan: SweepPlan) -> list[CellResult]:
    return list(LocalCrew(LABORATORY).work([task_of(plan, cell) for cell in measuring_order(plan)], Event()))


def report_of(plan: SweepPlan, found: list[CellResult]) -> Record:
    return report(StoredSweep(3, "2026-11-21", plan, LABORATORY.conditions, len(found)), found)


@pytest.fixture(scope="module")
def alone() -> Record:
    return report_of(ALONE, measured(ALONE))


@pytest.fixture(scope="module")
def found_at_once() -> list[CellResult]:
    return measured(AT_ONCE)


def swept(command: str) -> SweepPlan:
    """The sweep that a printed command line asks for."""
    words = shlex.split(command)
    assert words[:4] == ["python", "-m", "engine", "sweep"]
    return plan_of(verb_parser("sweep").parse_args(words[4:]))


def test_the_table_for_people_has_every_row(alone: Record) -> None:
    shown = table(alone)
    for row in alone["rows"]:
        assert f"{row['label']} " in shown
        assert f"{row['tokens_per_second']:.1f}" in shown
    assert f"Fastest here: {alone['recommended']['label']}" in shown
    assert "Fastest" not in table(report_of(ALONE, []))


def test_the_commands_of_a_report_do_what_they_say(alone: Record) -> None:
    words = shlex.split(alone["recommended"]["command"])
    assert words[:3] == ["python", "-m", "engine"]
    choice = verb_parser(words[3]).parse_args(words[4:])
    assert (choice.method, choice.budget, choice.prompt) == (
        alone["recommended"]["method"], alone["recommended"]["budget"], ALONE.prompts[0].text)
    again = swept(alone["command"])
    assert replace(again, prompts=ALONE.prompts) == ALONE
    assert len(again.prompts) == len(ALONE.prompts)


@pytest.mark.parametrize("budgets", [("auto",), ("auto,8",), ("8", "auto", "32")])
def test_the_commands_ask_for_the_budget_auto(budgets: tuple[str, ...]) -> None:
    words = ["--methods", "ddtree", "merged", "--budgets", *budgets, "--limit", "2"]
    plan = plan_of(verb_parser("sweep").parse_args(words))
    paced = [setting for setting in plan.settings if setting.pace == "auto"]
    assert [setting.label for setting in paced] == ["ddtree auto", "merged auto"]
    assert swept(sweep_command(plan)) == plan
    choice = verb_parser("generate").parse_args(shlex.split(run_command(plan, paced[0]))[4:])
    assert (choice.method, choice.budget) == ("ddtree", "auto")


def test_requests_at_once_are_in_table_and_command(found_at_once: list[CellResult]) -> None:
    made = report_of(AT_ONCE, found_at_once)
    said = table(made)
    assert "ddtree 16, 4 at once" in said and made["load"]["ddtree"][0] in said
    assert swept(sweep_command(AT_ONCE)).settings == AT_ONCE.settings


def test_a_prediction_is_told_with_its_error(found_at_once: list[CellResult]) -> None:
    made = prediction(AT_ONCE, found_at_once, LABORATORY)
    assert len(made["predicted"]) == len(AT_ONCE.settings)
    plain = [each for each in made["predicted"] if each["method"] == "autoregressive"]
    assert all(each["predicted_tokens_per_second"] == pytest.approx(each["total_tokens_per_second"]) for each in plain)
    assert made["prediction_error"].startswith(
        f"Against {len(AT_ONCE.settings)} measured cells the prediction is off by")
