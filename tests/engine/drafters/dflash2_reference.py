"""Random DFlash 2 drafters, and the outputs of z-lab's own code (package ``dflash`` 0.1.0) for them in ``dflash2.npz``.

    python tests/engine/drafters/dflash2_reference.py   # in an environment with that package
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NUMBERS = Path(__file__).with_name("dflash2.npz")
VOCABULARY, MASK_ID, CONTEXTS, TEMPERATURE = 97, 96, 25, 0.7
PREDECESSORS = (0, 1, 5, 15)  # ranks among the candidates of the slot before
HIDDEN = 32
MODEL = {"model_type": "qwen3", "architectures": ["DFlash2DraftModel"], "vocab_size": VOCABULARY, "hidden_size": HIDDEN,
         "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 12, "rms_norm_eps": 1e-6, "max_position_embeddings": 256, "num_target_layers": 3,
         "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 10, "use_sliding_window": True,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "tie_word_embeddings": False}
DFLASH2 = {"mask_token_id": MASK_ID, "target_layer_ids": [0, 1], "conv_kernel_size": 2, "conv_group_size": 16,
       "selector_rank": 8, "selector_top_k": 16}
MUSE = {"output_multiplier": 0.196, "final_logit_softcapping": 0.5, "input_embedding_scale": 1.7,
        "conv_kernel_size": 3, "conv_group_size": 4}
# Where the published checkpoints keep their options: inside dflash_config, or at the top.
CONFIGS: Mapping[str, dict[str, Any]] = {
    "inside": {**MODEL, "is_causal": False, "dflash_config": {**DFLASH2, "block_size": 8}},
    "muse": {**MODEL, "is_causal": False, "dflash_config": {**DFLASH2, **MUSE, "block_size": 8}},
    "top": {**MODEL, **DFLASH2, "block_size": 16},
    "causal": {**MODEL, **DFLASH2, "is_causal": True, "dflash_config": {"block_size": 16}}}


class Context(NamedTuple):
    """Hold a drafter's input: features (rows, taps × hidden size) of the committed positions, and the root."""

    features: NDArray[np.float32]
    root: int


def contexts(name: str) -> Iterator[Context]:
    """Yield contexts of up to 60 positions, most of them longer than the window."""
    draws = np.random.RandomState(sorted(CONFIGS).index(name))
    for _ in range(CONTEXTS):
        rows = draws.randint(1, 60)
        yield Context(draws.standard_normal((rows, 64)).astype(np.float32), int(draws.randint(VOCABULARY)))


def weights(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.float32]]:
    """Return fixed values for every tensor; norms and the first tap of each kernel are around 1."""
    draws = np.random.RandomState(7)
    values = {}
    for name, shape in sorted((short(name), shape) for name, shape in shapes.items()):
        value = (0.5 if "codebook" in name else 0.2) * draws.standard_normal(shape)
        if len(shape) == 1:
            value += 1
        if name.endswith("base_kernel"):
            value[:, 0] += 1
        values[name] = value.astype(np.float32)
    return values


def short(name: str) -> str:
    """Return a tensor's name in the published files: codebooks are modules in the package, and not in the file."""
    return name.removesuffix(".weight") if "codebook" in name else name


def target_weights() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the target's embedding and output head, (vocabulary, hidden size) each."""
    draws = np.random.RandomState(8)
    embedding, head = draws.standard_normal((2, VOCABULARY, HIDDEN)).astype(np.float32) * np.float32(0.3)
    return embedding, head


def main() -> None:
    """Write the numbers: for each config and context, hidden states, unary logits of the 16 candidates, scores of their
    transitions from some predecessors, the greedy walk, and a sampled walk with the rows that it was drawn from."""
    import torch
    from dflash import model as published  # type: ignore[import-not-found]
    from transformers import Qwen3Config

    numbers: dict[str, list[Any]] = {}
    for name, values in CONFIGS.items():
        drafter = published.DFlash2DraftModel(Qwen3Config(**values)).eval()
        state = drafter.state_dict()
        values_by_name = weights({key: tuple(value.shape) for key, value in state.items()})
        drafter.load_state_dict({key: torch.from_numpy(values_by_name[short(key)]) for key in state})
        embedding, head = (torch.from_numpy(value) for value in target_weights())
        target, output_head = torch.nn.Module(), torch.nn.Linear(HIDDEN, VOCABULARY, bias=False)
        target.get_input_embeddings = lambda: torch.nn.Embedding.from_pretrained(embedding)  # type: ignore[assignment]  # noqa: B023
        output_head.weight.data = head
        selector = drafter.candidate_selector
        for number, context in enumerate(contexts(name)):
            with torch.no_grad():
                tokens = torch.tensor([[context.root] + [MASK_ID] * (drafter.block_size - 1)])
                scale = published._draft_value(drafter.config, "input_embedding_scale", 1.0)
                hidden = drafter(
                    target_hidden=torch.from_numpy(context.features)[None],
                    noise_embedding=published._raw_input_embeddings(target, tokens, scale),
                    position_ids=torch.arange(len(context.features) + drafter.block_size)[None])[:, 1:]
                logits = drafter.compute_logits(hidden, output_head)
                unary, candidates = logits.topk(selector.top_k, -1)
                before = torch.cat([tokens[:, :1, None].expand(-1, 1, selector.top_k), candidates[:, :-1]], 1)
                scores = unary[..., None, :] + torch.einsum(
                    "bdpr,bdkr->bdpk",
                    selector.predecessor_codebook(before) * selector.hidden_projection(hidden)[:, :, None],
                    selector.successor_codebook(candidates))
                walk = drafter.propose(hidden, tokens[:, 0], output_head, 0.0)[0]
                torch.manual_seed(number)
                drawn, order, rows = drafter.propose(hidden, tokens[:, 0], output_head, TEMPERATURE)
                rows = rows.gather(-1, (order[..., None, :] == candidates[..., None]).int().argmax(-1))
            for key, value in {"hidden": hidden, "candidates": candidates.short(), "unary": unary,
                               "scores": scores[:, :, PREDECESSORS], "walk": walk.short(), "drawn": drawn.short(),
                               "rows": rows}.items():
                numbers.setdefault(f"{name}.{key}", []).append(value[0].numpy())
    arrays: dict[str, Any] = {key: np.stack(values) for key, values in numbers.items()}
    np.savez_compressed(NUMBERS, **arrays)


if __name__ == "__main__":
    main()
