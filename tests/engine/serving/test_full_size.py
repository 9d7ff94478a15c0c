"""A published pair at its full size, random weights saved to disk and loaded as a person would: 9 GB there, as much in
memory, some minutes. Asked for with CANOPY_FULL_SIZE=1."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.models.packed_linear import PackedHead
from engine.records import Request
from engine.serving.rigs import load_rig
from tests.engine.material import plain_text, text_of
from tests.engine.published import (
    DFLASH,
    TARGETS,
    dflash_config,
    dflash_shapes,
    write_config,
    write_target,
    write_weights,
)
from tests.engine.serving.test_published import states_of

NAME = "Qwen3-4B-DFlash-b16"
FULL = {"hidden_size": 2560, "intermediate_size": 9728, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128}
SPREAD = 0.02

pytestmark = pytest.mark.skipif(
    not os.environ.get("CANOPY_FULL_SIZE"), reason="writes 9 GB; CANOPY_FULL_SIZE=1 asks for it")


def test_the_full_pair_loads_drafts_as_the_reference_does_and_stays_lossless(tmp_path: Path) -> None:
    published = DFLASH[NAME]
    target = write_target(tmp_path / published.target, TARGETS[published.target], dtype=torch.bfloat16, spread=SPREAD,
                          **FULL)
    folder = write_weights(
        write_config(tmp_path / NAME, dflash_config(published, **FULL)), dflash_shapes(published, FULL),
        dtype=torch.bfloat16, spread=SPREAD)
    gc.collect()
    rig = load_rig(f"{target}::{folder}", "bfloat16")
    assert sum(value.numel() for value in rig.target.model.parameters()) > 4e9
    prompt = tuple(range(40, 60))
    request = Request(prompt, method="ddtree", budget=16, max_tokens=6)
    drafter = rig.drafters["drafter"]
    assert isinstance(drafter, DFlashDrafter)
    assert len(text_of(request, rig.target, [drafter])) == len(plain_text(request, rig.target)) == 6

    # the weights are bfloat16's, so float32 holds them exactly: the arithmetic is compared and not its rounding
    output = PackedHead(rig.target.head.float())
    whole = DFlashDrafter(drafter.model.float(), rig.target.embedding.float(), output)
    features = torch.randn(9, len(published.taps) * FULL["hidden_size"], generator=torch.Generator().manual_seed(2))
    whole.begin(32)
    for first, last in ((0, 5), (5, 6), (6, 9)):
        whole.observe(np.arange(first, last, dtype=np.int32), features[first:last])
    lattice = whole.draft(7, 50)
    with torch.no_grad():
        tokens = torch.tensor([7] + [published.mask_id] * (published.block - 1))
        hidden = states_of(folder, NAME, features, rig.target.embedding(tokens), FULL["head_dim"])
        said = rig.target.head(hidden[1:]).log_softmax(-1)
    asked = said.gather(-1, torch.from_numpy(lattice.tokens[:, 0]).long()).numpy()
    np.testing.assert_allclose(lattice.logprobs[:, 0], asked, atol=1e-4)
