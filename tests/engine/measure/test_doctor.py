"""The doctor on the demo rig as it is, and on rigs that were broken on purpose: it names what is broken."""

from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.lab.findings import FINE, WRONG, DoctorFinding
from engine.measure.doctor import ReferenceAnswer, answer_of, diagnose, examine
from engine.models.target import TorchTarget
from engine.records import Lattice
from engine.requests.prompts import read_prompts
from engine.serving.rig import Rig
from tests.engine.demo import demo_rig

PROMPTS = [prompt.text for prompt in read_prompts(Path("assets/prompts/math.jsonl"))[:2]]
WORD = 700  # an ordinary token of the demo's vocabulary


def whole() -> Rig:
    """The demo rig with one drafter."""
    rig = demo_rig()
    return replace(rig, drafters={"math": rig.drafters["math"]})


def model() -> DFlashModel:
    """A copy of its drafter's model, to be broken."""
    drafter = demo_rig().drafters["math"]
    assert isinstance(drafter, DFlashDrafter)
    return deepcopy(drafter.model)


def with_model(broken: DFlashModel, kind: type[DFlashDrafter] = DFlashDrafter) -> Rig:
    rig = demo_rig()
    return replace(rig, drafters={"math": kind(broken, rig.target.embedding, rig.target.logits)})


@lru_cache(maxsize=1)
def texts() -> list[ReferenceAnswer]:
    """The target is never broken, so neither are its texts."""
    return [answer_of(demo_rig(), prompt) for prompt in PROMPTS]


def by_name(rig: Rig) -> dict[str, DoctorFinding]:
    return {finding.name: finding for finding in examine(rig, texts())}


def wrong(found: dict[str, DoctorFinding]) -> set[str]:
    return {name for name, finding in found.items() if finding.status == WRONG}


def test_a_healthy_rig_has_nothing_wrong_and_every_finding_its_figure() -> None:
    other = replace(demo_rig("bfloat16"), drafters={"math": demo_rig("bfloat16").drafters["math"]})
    found = {finding.name: finding for finding in diagnose(whole(), PROMPTS[:1], other)}
    assert set(found) == {"features", "chat template", "thinking", "taps", "mask token", "slot 0", "slots", "rope",
                          "rope base", "draft", "vocabulary", "confidence", "positions", "dtype"}
    assert not wrong(found)
    assert all(any(character.isdigit() for character in finding.seen) for name, finding in found.items()
               if name != "chat template")
    assert all(bool(finding.advice) == (finding.status != FINE) for finding in found.values())


def test_taps_that_are_not_the_configs_are_named() -> None:
    rig = whole()
    taps = tuple(reversed(rig.target.taps))
    found = by_name(replace(rig, target=TorchTarget(rig.target.model, taps)))
    assert wrong(found) == {"taps"} and "config says" in found["taps"].seen


def test_a_config_that_orders_the_taps_wrongly_is_found_out_by_trying() -> None:
    rig, broken = whole(), model()
    right, size = rig.target.taps, rig.target.config.hidden_size
    # a drafter whose weights were trained on the reversed order, so that the config's order is the wrong one
    broken.fc.weight.data = torch.cat(list(reversed(broken.fc.weight.data.split(size, -1))), -1)
    found = by_name(with_model(broken))
    assert found["taps"].status == WRONG
    assert f"layers {', '.join(map(str, reversed(right)))}" in found["taps"].advice
    assert wrong(found) == {"taps"}


def test_a_mask_token_that_is_a_word_is_named() -> None:
    broken = model()
    broken.config.dflash_config = {**broken.config.dflash_config, "mask_token_id": WORD}
    found = by_name(with_model(broken))
    assert wrong(found) == {"mask token"} and found["mask token"].advice.startswith("Lay the block")


class MaskedRoot(DFlashDrafter):
    """Puts the mask token where the root belongs."""

    def draft(self, root: int, width: int) -> Lattice:
        return super().draft(self.mask_id, width)


def test_a_mask_in_slot_0_is_named() -> None:
    found = by_name(with_model(model(), MaskedRoot))
    assert wrong(found) == {"slot 0"} and "not the mask token" in found["slot 0"].advice


def test_a_wrong_rotary_base_is_named() -> None:
    broken = model()
    broken.config.rope_parameters = {**broken.config.rope_parameters, "rope_theta": 1e6}
    broken.rotary_emb = Qwen3RotaryEmbedding(broken.config)
    found = by_name(with_model(broken))
    assert wrong(found) == {"rope"} and "base 10000 fares better" in found["rope"].advice
    assert found["rope base"].status != FINE


class Forgetful(DFlashDrafter):
    """Keeps its context one position too far to the left."""

    def observe(self, token_ids, features) -> None:  # type: ignore[no-untyped-def]
        super().observe(token_ids[1:], features[1:])


def test_a_drafter_that_is_not_its_model_is_named() -> None:
    assert wrong(by_name(with_model(model(), Forgetful))) == {"draft"}


def test_a_drafter_of_another_vocabulary_is_named() -> None:
    broken = model()
    broken.config.vocab_size = 99
    assert "vocabulary" in wrong(by_name(with_model(broken)))
