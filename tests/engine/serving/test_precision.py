"""The dtype that is chosen by measurement: measured once, remembered, and the same for plain decoding and trees."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from engine.checkpoints.memory import DEFAULT_CONTEXT, LoadContext
from engine.errors import RigError
from engine.records import PromptRequest, Request, Sampling
from engine.requests.rig_names import AUTO_DTYPE
from engine.serving import precision
from engine.serving.card import TYPICAL_LENGTHS
from engine.serving.precision import PassTimes, choose_dtype
from engine.serving.rigs import load_rig
from engine.trace import committed_ids, trace_from_lines
from tests.engine.helpers import plain_text, text_of
from tests.engine.published import write_short


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, 0, 0.95, 3)])
def test_other_weights_are_rounded_to_four_bits_on_request(
        sampling: Sampling, tmp_path: Path) -> None:
    rig = load_rig(f"{write_short(tmp_path / 'target', 'Qwen3-8B')}::ngram", "int4", "cpu")
    assert rig.target.dtype == "int4" and any("4 bits" in note for note in rig.notes)
    request = Request(tuple(range(40, 60)), method="nanogpt", budget=12, max_tokens=14, sampling=sampling)
    wanted = plain_text(request, rig.target)
    assert text_of(replace(request, method="ddtree"), rig.target, list(rig.drafters.values())) == wanted


def test_a_large_target_is_not_rounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "MAX_QUANTISED", 1000)
    target = write_short(tmp_path / "target", "Qwen3-8B")
    with pytest.raises(RigError, match="target.*int4"):
        load_rig(f"{target}::ngram", "int4", "cpu")


def passes(*milliseconds: float) -> PassTimes:
    """Return the times of passes of 1, 4 and 17 rows, with other sizes interpolated."""
    rows = (1, 2, 4, 8, 17)
    return dict(zip(rows, map(float, np.interp(rows, (1, 4, 17), milliseconds)), strict=True))


DEMO_TARGET = Path("assets/demo/target")
DEMO = {1: 1.95, 3: 3.71, 7: 6.25, 16: 8.81}
SLOW_BFLOAT16 = {"float32": passes(12, 13, 15), "bfloat16": passes(8, 14, 40)}  # about a processor with AVX2 alone
TILES = {"float32": passes(12, 13, 15), "bfloat16": passes(5, 6, 8)}
PROCESSORS: dict[str, tuple[dict[str, PassTimes], dict[int, float], str]] = {  # of SmolLM2, except the last two
    "AVX-512 with bfloat16": ({"float32": passes(42.4, 66.5, 85.4), "bfloat16": passes(20.6, 20.2, 30.6),
                               "int4": passes(11.0, 15.1, 41.6)}, dict(TYPICAL_LENGTHS), "int4"),
    "AMX, whose rows are nearly free": ({"float32": passes(42, 66, 85), "bfloat16": passes(13, 13.5, 14),
                                         "int4": passes(13, 21, 60)}, dict(TYPICAL_LENGTHS), "bfloat16"),
    "one that is slow in 4 bits": ({"float32": passes(42, 66, 85), "bfloat16": passes(20, 24, 40),
                                    "int4": passes(60, 90, 300)}, dict(TYPICAL_LENGTHS), "bfloat16"),
    "AVX2, the demo rig": (SLOW_BFLOAT16, DEMO, "float32"),
    "matrix units, the demo rig": (TILES, DEMO, "bfloat16"),
}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the file of remembered choices in an empty folder."""
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path))
    return tmp_path / "precision.json"


def replace_measurement(monkeypatch: pytest.MonkeyPatch, times: dict[str, PassTimes]) -> Mock:
    """Replace the measurement with these times; return the mock."""
    measure = Mock(return_value=times)
    monkeypatch.setattr(precision, "pass_times", measure)
    return measure


@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_dtype_with_the_most_expected_tokens_per_second_is_chosen(processor: str) -> None:
    times, lengths, best = PROCESSORS[processor]
    choice = choose_dtype(times, lengths)
    assert choice.dtype == best and choice.reason.startswith(best)
    rates = {name: max(lengths.get(rows - 1, 1.0) / ms for rows, ms in times[name].items()) for name in times}
    assert rates[best] >= 0.9 * max(rates.values()), "no other dtype is clearly faster"


def test_a_dtype_with_exact_rows_wins_near_ties() -> None:
    times = {"bfloat16": passes(10, 20, 40), "int4": passes(10.8, 21.6, 43)}
    assert choose_dtype(times, TYPICAL_LENGTHS).dtype == "int4"
    assert choose_dtype({**times, "int4": passes(11.5, 23, 46)}, TYPICAL_LENGTHS).dtype == "bfloat16"


def test_a_dtype_that_is_faster_for_plain_decoding_alone_is_named() -> None:
    choice = choose_dtype(SLOW_BFLOAT16, DEMO)
    assert (choice.dtype, choice.plain_dtype, choice.plain_gain) == ("float32", "bfloat16", 1.5)
    same = choose_dtype(TILES, DEMO)
    assert (same.dtype, same.plain_dtype, same.plain_gain) == ("bfloat16", "", 1.0)


@pytest.mark.parametrize("times", [SLOW_BFLOAT16, TILES])
def test_plain_decoding_and_trees_run_in_one_dtype(kept: Path, monkeypatch: pytest.MonkeyPatch,
                                                   times: dict[str, PassTimes]) -> None:
    replace_measurement(monkeypatch, times)
    rig = load_rig("demo", AUTO_DTYPE, "cpu")
    best = choose_dtype(times, DEMO).dtype
    runs = [trace_from_lines(rig.run(PromptRequest("What is 3 + 4?", method=method, budget=16, max_tokens=12)))
            for method in ("autoregressive", "ddtree")]
    assert rig.target.dtype == best
    assert [run.header.dtype for run in runs] == [best, best]
    assert all(run.header.precision.startswith(best) for run in runs)
    assert len({tuple(committed_ids(run.rounds)) for run in runs}) == 1


def dtype_chosen(wanted: str = AUTO_DTYPE) -> str:
    """Return the dtype that is chosen for the demo rig's target on a CPU."""
    return precision.precision(wanted, DEMO_TARGET, torch.device("cpu"), DEFAULT_CONTEXT, DEMO).dtype


def test_the_choice_is_remembered_and_measured_again_if_unreadable(
        kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = replace_measurement(monkeypatch, TILES)
    assert [dtype_chosen(), dtype_chosen()] == ["bfloat16"] * 2
    measured.assert_called_once_with(DEMO_TARGET, tuple(TILES))
    kept.write_text('{"half', "utf8")
    assert dtype_chosen() == "bfloat16" and measured.call_count == 2
    kept.write_text(kept.read_text("utf8").replace('"4": ', '"3": '), "utf8")  # one of the sizes is missing
    assert dtype_chosen() == "bfloat16" and measured.call_count == 3
    kept.unlink()
    kept.mkdir()  # a folder in place of the file
    assert [dtype_chosen(), dtype_chosen()] == ["bfloat16"] * 2 and measured.call_count == 5


def test_progress_is_reported_before_products_are_compiled(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_measurement(monkeypatch, PROCESSORS["AVX-512 with bfloat16"][0])
    steps = Mock()
    monkeypatch.setattr(precision, "in_four_bits", Mock(return_value=True))
    monkeypatch.setattr(precision, "compiled_layers", steps.compile)
    precision.precision(AUTO_DTYPE, DEMO_TARGET, torch.device("cpu"), LoadContext(steps.report), DEMO)
    assert [step[0] for step in steps.method_calls][:2] == ["report", "compile"]


def test_a_change_of_the_passes_measures_again(
        kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = replace_measurement(monkeypatch, PROCESSORS["AVX-512 with bfloat16"][0])
    monkeypatch.setattr(precision, "in_four_bits", Mock(return_value=True))
    assert [dtype_chosen(), dtype_chosen()] == ["int4"] * 2 and measured.call_count == 1
    for calls, (name, other) in enumerate({"compiled_layers": Mock(return_value=None),
                                           "compiled_product": Mock(return_value=None),
                                           "PASS_VERSION": precision.PASS_VERSION + 1}.items(), start=2):
        monkeypatch.setattr(precision, name, other)
        assert dtype_chosen() == "int4" and measured.call_count == calls


def test_nothing_is_measured_for_a_named_dtype_or_a_large_target(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = replace_measurement(monkeypatch, SLOW_BFLOAT16)
    assert dtype_chosen("float32") == "float32"
    monkeypatch.setattr(precision, "MAX_PARAMETERS", 1000)
    assert dtype_chosen() == "bfloat16" and measured.call_count == 0


def test_the_targets_own_passes_are_measured(kept: Path) -> None:
    times = precision.pass_times(DEMO_TARGET, ["float32", "bfloat16"])
    assert times.keys() == {"float32", "bfloat16"}
    assert all(list(rows) == [1, 2, 4, 8, 17] and all(0 < ms < 60_000 for ms in rows.values())
               for rows in times.values())
