"""A rig's default setting agrees with its recorded measurements."""

import json

import pytest

from engine.decoding.methods import METHODS
from engine.lab.summary import Row, summarise
from engine.requests.rig_names import RIGS_FOLDER, default_setting
from explorer.bundle import ASSETS
from explorer.lab.recorded import shipped
from explorer.run_form import Preset, read_presets

TIE = 0.97  # of the fastest speed: a setting this close may replace it if its trees show more
RIGS = sorted(path.parent.name for path in RIGS_FOLDER.glob("*/rig.json"))
PRESETS = read_presets(ASSETS / "prompts")


def table(rig: str) -> list[Row]:
    """Return the lossless rows of the rig's first recorded sweep, for one request at a time."""
    first = next(sweep for sweep in shipped() if sweep.stored.plan.rig == rig)
    rows = summarise(first.stored.plan.settings, first.measured).at(1).rows
    return [row for row in rows if METHODS[row.setting.method].lossless]


def row_of(rig: str, method: str, budget: int) -> Row | None:
    return next((row for row in table(rig) if (row.setting.method, row.setting.budget) == (method, budget)), None)


@pytest.mark.parametrize("rig", RIGS)
def test_a_rig_starts_with_the_fastest_setting_of_its_table(rig: str) -> None:
    usual = default_setting(rig)
    row, fastest = row_of(rig, usual["method"], usual["budget"]), max(row.total.median for row in table(rig))
    assert row and row.speedup and row.speedup.median > 1, "it is measured, and faster than plain decoding"
    assert row.total.median >= TIE * fastest
    card = json.loads((RIGS_FOLDER / rig / "rig.json").read_text("utf8"))
    assert (card["method"], card["budget"]) == (usual["method"], usual["budget"])


@pytest.mark.parametrize("rig", RIGS)
def test_vetted_presets_run_at_the_rigs_setting(rig: str) -> None:
    usual = default_setting(rig)
    assert {(asked["method"], asked["budget"]) for asked in PRESETS.vetted()[rig]} == {tuple(usual.values())}


@pytest.mark.parametrize(("rig", "preset"), [(rig, preset) for rig in RIGS for preset in PRESETS.by_rig[rig]],
                         ids=lambda value: value.name if isinstance(value, Preset) else value)
def test_no_preset_runs_at_a_setting_that_was_slower_than_plain_decoding(rig: str, preset: Preset) -> None:
    row = row_of(rig, preset.request.method, preset.request.budget)
    assert row and row.speedup and row.speedup.median >= 1


def test_rigs_without_a_table_start_with_the_general_defaults() -> None:
    assert all(default_setting(name) == {} for name in ("qwen3-8b", "../assets/demo", "no rig", "\0", ""))
