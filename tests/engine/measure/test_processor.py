"""A pass of a rig, predicted from what this processor takes for products, attention and dispatches that are not its."""

from statistics import median

import pytest

from engine.commands.predict import run
from engine.commands.program import verb_parser
from engine.lab.machines import Processor
from engine.measure.processor import Probes, measure_processor, shape_of
from engine.serving.rigs import load_rig

ROWS = (1, 4)


def test_the_shape_of_a_rig_counts_the_weights_that_a_row_passes() -> None:
    model = load_rig("demo", "float32").target.model
    shape = shape_of(model.config)
    weights = sum(weight.numel() for weight in model.get_decoder().layers.parameters() if weight.ndim > 1)
    assert shape.layers * shape.layer == weights and shape.head == model.get_output_embeddings().weight.numel()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int4"])
def test_every_part_of_a_pass_is_timed(dtype: str) -> None:
    target = load_rig("demo", "float32").target
    processor, passes = measure_processor(target, dtype, 64, ROWS, 0)
    assert isinstance(processor, Processor) and processor.rows == ROWS and min(passes) > 0
    for part in (processor.product, processor.head, processor.layer, processor.attention, processor.choice):
        assert len(part) == len(ROWS) and min(part) > 0
    assert Probes(dtype, shape_of(target.config)).target.dtype == dtype, "small layers are in 4 bits too"


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_passes_of_the_demo_rig_are_predicted_within_a_fifth(dtype: str) -> None:
    choice = verb_parser("predict").parse_args(["--here", "--rig", "demo", "--dtype", dtype, "--context", "128"])
    for _ in range(3):  # other programs can spoil one
        outcome = run(choice)
        assert "GB/s" in outcome.text
        if median(abs(error) for error in outcome.result["here"]["errors"]) <= 0.2:
            return
    pytest.fail(outcome.text)
