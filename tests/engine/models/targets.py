"""What Canopy says of each class of transformers that writes text: docs/targets.md, written by ``python -m
tests.engine.models.targets`` and held to the truth by ``test_targets``."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from engine.checkpoints.loading import why_not
from engine.decoding.methods import METHODS
from engine.errors import RigError
from engine.models.target import TorchTarget, largest_difference_nats, must_verify_trees
from engine.records import Request
from tests.engine.material import text_of
from tests.engine.models.shrunk import HalfKnowing, shrunk, small_config_of

TABLE = Path("docs/targets.md")
KINDS = tuple(dict.fromkeys([*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES]))
RUNS = "trees"
PROMPT = tuple(range(5, 17))
MOST_NATS = 1e-3
HEAD = """# Targets

What Canopy says of each of the {kinds} model types that transformers {version} has a causal language model for, or one
that reads pictures and writes text: {run} run, {refused} are refused in a sentence. *trees* means that a small random
model of the type was run in float32: the nodes of a tree predict what plain decoding does, and every lossless method
writes its text. Multimodal checkpoints run by their text part; a quantised checkpoint is refused whatever its type.

| model type | answer |
|---|---|
"""


def answer(kind: str) -> str:
    """``RUNS``, or the reason of the refusal. AssertionError where a model runs that writes another text."""
    if reason := why_not(small_config_of(kind)):
        return reason
    try:
        model = shrunk(kind)
    except ImportError as error:
        package = re.search(r"the (\w+) library", str(error))
        return f"it needs a package that is not installed: {package and package[1]}"
    try:
        model(input_ids=torch.tensor([PROMPT]), use_cache=False)  # a wrong size in ``shrunk`` is no refusal
    except (TypeError, ValueError) as error:
        assert "pixel_values" in str(error), error
    target = TorchTarget(model, ())
    try:
        must_verify_trees(target)
    except RigError as error:
        return re.split(r" \(|, so|;", str(error))[0].split(" ", 2)[2]  # a message's numbers depend on the machine
    apart = largest_difference_nats(target)
    assert apart < MOST_NATS, f"{kind}: {apart} nats apart"
    written = {method: text(target, method, []) for method in ("autoregressive",)}
    known = [HalfKnowing(PROMPT, written["autoregressive"], seed) for seed in (0, 1)]
    written |= {method: text(target, method, known) for method, row in METHODS.items() if row.lossless}
    assert len(set(written.values())) == 1, f"{kind}: {written}"
    return RUNS


def text(target: TorchTarget, method: str, drafters: list[HalfKnowing]) -> tuple[int, ...]:
    """What a method writes."""
    budget = 0 if method == "autoregressive" else 8
    request = Request(PROMPT, method=method, budget=budget, max_tokens=12)
    return tuple(text_of(request, target, drafters))


def table(answers: Mapping[str, str]) -> str:
    """The file, from the answers by model type."""
    run = sum(said == RUNS for said in answers.values())
    head = HEAD.format(kinds=len(answers), version=transformers.__version__, run=run, refused=len(answers) - run)
    return head + "".join(f"| `{kind}` | {said} |\n" for kind, said in sorted(answers.items()))


def rows() -> dict[str, str]:
    """The answers in the file."""
    return dict(re.findall(r"^\| `(.+?)` \| (.+) \|$", TABLE.read_text(encoding="utf8"), re.MULTILINE))


if __name__ == "__main__":
    TABLE.write_text(table({kind: answer(kind) for kind in KINDS}), encoding="utf8")
