"""A test that a target can verify trees: one small tree pass against plain passes, for architectures not tried before.

A model that counts rows instead of positions, or that lets a node see its siblings, would write other text than it
writes by itself, and nothing else would reveal it.
"""

from __future__ import annotations

import numpy as np
import torch

from engine.decoding.tree import pack, path_to
from engine.errors import RigError
from engine.models.target import TorchTarget
from engine.records import DraftTree, Sampling

TRIED = frozenset({"llama", "mistral", "qwen2", "qwen3", "qwen3_moe"})
PREFIX, SIBLINGS, DEPTH = 6, 12, 3
TOLERANCES_NATS = {torch.float32: 0.02}
COARSE_NATS = 0.5  # more than rounding to 16 bits changes in a batch of rows


def must_verify_trees(target: TorchTarget) -> None:
    """RigError where the nodes of a small tree predict something else than a plain pass over the same text."""
    kind = target.config.model_type
    if kind in TRIED:
        return
    try:
        apart = largest_difference_nats(target)
    except (TypeError, ValueError, RuntimeError, AttributeError, KeyError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:160].rstrip(".")
        raise RigError(f"A {kind} cannot be verified as a tree ({said}); choose a target with standard "
                       "attention.") from error
    if not apart <= TOLERANCES_NATS.get(target.model.dtype, COARSE_NATS):
        raise RigError(f"A {kind} predicts something else in a tree than in a plain pass ({apart:.2f} nats apart), so "
                       "its text would change; choose a target with standard attention.")


@torch.inference_mode()
def largest_difference_nats(target: TorchTarget) -> float:
    """The largest difference, in nats, between a tree pass and plain passes: of the top token's log probability and of
    the entropy, at three nodes. Many siblings lie before the last one's path, so a node that sees them is far off."""
    random = np.random.default_rng(0)
    least = min(int(target.config.vocab_size), 1000)
    prompt = random.integers(0, least, PREFIX).tolist()
    tokens = random.integers(0, least, 1 + SIBLINGS + DEPTH).astype(np.int32)
    parents = np.asarray([0] * (SIBLINGS + 1) + list(range(SIBLINGS, SIBLINGS + DEPTH)), np.int32)
    tree = DraftTree(tokens, parents, np.zeros(len(tokens), np.float32), np.ones(len(tokens), np.int32))
    try:
        target.prefill(prompt, len(tokens), Sampling())
        said = target.verify(pack(tree, PREFIX))
    finally:
        target.release()
    worst = 0.0
    for node in (1, SIBLINGS, len(tree) - 1):
        path = torch.tensor([[*prompt, *tokens[path_to(parents, node)].tolist()]], device=target.device)
        logprobs = target.model(input_ids=path, use_cache=False).logits[0, -1].float().log_softmax(-1)
        entropy = float(torch.special.entr(logprobs.exp()).sum())
        worst = max(worst, abs(float(logprobs.max()) - float(said.logprobs[node])),
                    abs(entropy - float(said.entropy[node])))
    return worst
