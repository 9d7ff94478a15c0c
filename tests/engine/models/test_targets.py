"""docs/targets.md gives Canopy's answer for every text model of transformers; the most used are tested in every run,
all types in a long one. ``python -m tests.engine.models.test_targets`` writes it."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from engine.checkpoints.loading import unsupported_reason
from engine.errors import RigError
from engine.models.target import TorchTarget, check_tree_verification, largest_difference_nats
from engine.records import Request
from tests.engine.helpers import LOSSLESS, plain_text, text_of
from tests.engine.models.shrunk import FallibleDrafter, shrunk, small_config_of

TABLE = Path("docs/targets.md")
KINDS = tuple(dict.fromkeys([*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES]))
RUNS = "trees"
PROMPT = tuple(range(5, 17))
MAX_NATS = 1e-3
HEAD = """# Targets

The {kinds} model types of transformers {version} that write text, those that also read pictures by their text part:
{run} run with trees, {refused} are refused in one sentence. *trees* means that a small random model of the type was run
in float32: a tree's nodes predict what plain decoding does, and every lossless method writes its text. A quantised
checkpoint is refused whatever its type.

| answer | model types |
|---|---|
"""


def answer(kind: str) -> str:
    """Return ``RUNS`` or the reason of the refusal; fail if a model runs and writes another text."""
    if reason := unsupported_reason(small_config_of(kind)):
        return reason
    try:
        model = shrunk(kind)
    except ImportError as error:
        package = re.search(r"the (\w+) library", str(error))
        return f"it needs a package that is not installed: {package and package[1]}"
    try:
        model(input_ids=torch.tensor([PROMPT]), use_cache=False)  # a wrong size in ``shrunk`` would look like a refusal
    except (TypeError, ValueError) as error:
        assert "pixel_values" in str(error), error
    target = TorchTarget(model, ())
    try:
        check_tree_verification(target)
    except RigError as error:
        return re.split(r" \(|, so|;", str(error))[0].split(" ", 2)[2]  # a message's numbers depend on the machine
    apart = largest_difference_nats(target)
    assert apart < MAX_NATS, f"{kind}: {apart} nats apart"
    request = Request(PROMPT, budget=8, max_tokens=12)
    plain = plain_text(request, target)
    drafters = [FallibleDrafter(PROMPT, plain, seed) for seed in (0, 1)]
    for method in set(LOSSLESS) - {"autoregressive"}:
        assert text_of(replace(request, method=method), target, drafters) == plain, (kind, method)
    return RUNS


def table(answers: Mapping[str, str]) -> str:
    """Return the file's text: a row per answer, the most frequent first."""
    run = list(answers.values()).count(RUNS)
    head = HEAD.format(kinds=len(answers), version=transformers.__version__, run=run, refused=len(answers) - run)
    by_answer = defaultdict(list)
    for kind, text in sorted(answers.items()):
        by_answer[text].append(f"`{kind}`")
    ordered = sorted(by_answer.items(), key=lambda row: (-len(row[1]), row[0]))
    return head + "".join(f"| {text} | {', '.join(kinds)} |\n" for text, kinds in ordered)


def rows() -> dict[str, str]:
    """Return the file's answers by model type."""
    found = re.findall(r"^\| (.+) \| (`.+`) \|$", TABLE.read_text(encoding="utf8"), re.MULTILINE)
    return {kind: text for text, kinds in found for kind in re.findall(r"`(.+?)`", kinds)}


MAX_USED = ("llama", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "gemma3_text", "gemma4_text", "gpt_oss",
             "deepseek_v3", "lfm2", "gemma2", "gpt2")

pytestmark = pytest.mark.skipif(f"transformers {transformers.__version__} " not in TABLE.read_text(encoding="utf8"),
                                reason="the table is of another version of transformers")


@pytest.mark.parametrize("kind", MAX_USED)
def test_the_most_used_targets_verify_trees(kind: str) -> None:
    assert answer(kind) == rows()[kind] == RUNS


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(MAX_USED)))
def test_every_other_type_gives_the_documented_answer(kind: str) -> None:
    assert answer(kind) == rows()[kind]


def test_the_table_has_every_type_and_correct_totals() -> None:
    assert set(rows()) == set(KINDS)
    assert table(rows()) == TABLE.read_text(encoding="utf8")


if __name__ == "__main__":
    TABLE.write_text(table({kind: answer(kind) for kind in KINDS}), encoding="utf8")
