"""The distribution of a torch target's first three tokens, against exact enumeration; method and error rate as in
test_distribution.py.

Rules that follow the target's choices write plain decoding's text draw by draw, which
``tests/engine/models/test_target.py`` compares. So the rule with draws of its own is tested here, on a small random
target.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from engine.decoding.protocols import Drafter, Features
from engine.models.sampling import processed_logprobs
from engine.models.target import TorchTarget
from engine.records import Integers, Lattice, Request, Sampling
from engine.trace import committed_ids
from tests.engine.decoding.test_distribution import ERROR_RATE, p_value
from tests.engine.helpers import decode
from tests.engine.small import small_target
from tests.engine.toy import ToyDrafter

LENGTH = 3

Text = tuple[int, ...]


@torch.inference_mode()
def exact_distribution(request: Request, target: TorchTarget) -> dict[Text, float]:
    """Return every text of three tokens (or fewer, if it stops) with its probability."""
    open_texts: dict[Text, float] = {(): 1.0}
    ended: dict[Text, float] = {}
    for _ in range(LENGTH):
        longer: dict[Text, float] = {}
        for text, chance in open_texts.items():
            logits = target.model(input_ids=torch.tensor([[*request.prompt_ids, *text]])).logits[0, -1:].float()
            probabilities = processed_logprobs(logits, request.sampling)[0].exp()
            for token in probabilities.nonzero()[:, 0].tolist():
                where = ended if token in request.stop_ids else longer
                key = text if token in request.stop_ids else (*text, token)
                where[key] = where.get(key, 0.0) + chance * float(probabilities[token])
        open_texts = longer
    return {**open_texts, **ended}


def p_value_of_draws(request: Request, target: TorchTarget, drafters: Sequence[Drafter], texts: int) -> float:
    """Return the p-value of the texts that are written with seeds 0, 1, … under the target's distribution."""
    probabilities = exact_distribution(request, target)
    assert len(probabilities) > 4 and abs(sum(probabilities.values()) - 1) < 1e-4
    cells = {text: number for number, text in enumerate(probabilities)}
    counts = np.zeros(len(probabilities))
    for seed in range(texts):
        seeded = replace(request, sampling=replace(request.sampling, seed=seed))
        counts[cells[tuple(committed_ids(decode(seeded, target, drafters)))]] += 1  # KeyError: an impossible text
    chances = np.asarray(list(probabilities.values()))
    return p_value(counts, chances / chances.sum())


class TopTwoDrafter(ToyDrafter):
    """Propose two of the tokens that a torch target allows next."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.text, self.released, self.known = model, [], 0, dict[Text, Lattice]()

    def observe(self, token_ids: Integers, features: Features) -> None:
        self.text += token_ids.tolist()

    @torch.inference_mode()
    def draft(self, root: int, width: int) -> Lattice:
        text = *self.text, root
        if text not in self.known:
            best = self.model(input_ids=torch.tensor([text])).logits[:, -1:].log_softmax(-1).topk(2)
            self.known[text] = Lattice(best.indices.int().numpy(), best.values.numpy(), np.zeros((1, 1, 2), np.int32))
        return self.known[text]


def test_a_rule_with_its_own_draws_keeps_the_targets_law() -> None:
    target = small_target()
    request = Request((5, 6, 7, 8), method="nanogpt", budget=2, max_tokens=LENGTH, sampling=Sampling(1.0, top_k=3))
    assert p_value_of_draws(request, target, [TopTwoDrafter(small_target().model)], 250) > ERROR_RATE
