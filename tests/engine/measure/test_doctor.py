"""The doctor on the healthy demo rig and on rigs with one defect each: it names the defect."""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from engine.drafters.dflash.drafter import DFlashDrafter
from engine.drafters.dflash.model import DFlashModel
from engine.drafters.fields import neox_to_interleaved
from engine.drafters.kinds import THINKING
from engine.lab.findings import FINE, WRONG, DoctorFinding
from engine.lab.sweeping import Progress
from engine.measure import doctor
from engine.measure.doctor import ReferenceAnswer, answer_of, compare_thinking, diagnose, examine
from engine.models.target import TorchTarget
from engine.records import Lattice
from engine.requests.prompts import read_prompts
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from tests.engine.checkpoints.test_refusals import change_file
from tests.engine.demo import demo_rig
from tests.engine.models.shrunk import FallibleDrafter
from tests.engine.published import write_short, write_short_dflash

PROMPTS = [prompt.text for prompt in read_prompts(Path("assets/prompts/math.jsonl"))[:2]]
WORD = 700  # an ordinary token of the demo's vocabulary


@pytest.fixture(autouse=True)
def _reduce_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try fewer positions and alternatives, which are enough for these defects."""
    for name, value in (("TARGET_ANCHORS", 28), ("MAX_MASKS", 2), ("BASES", (1e4, 1e6))):
        monkeypatch.setattr(doctor, name, value)


def with_one_drafter(dtype: str = "float32") -> Rig:
    rig = demo_rig(dtype)
    return replace(rig, drafters={"math": rig.drafters["math"]})


@lru_cache(maxsize=1)
def answers() -> list[ReferenceAnswer]:
    """Return the target's answers, which are shared because no test changes the target."""
    return [answer_of(demo_rig(), prompt) for prompt in PROMPTS]


def findings_of(rig: Rig) -> dict[str, DoctorFinding]:
    return {finding.name: finding for finding in examine(rig, answers())}


def wrong(findings: dict[str, DoctorFinding]) -> set[str]:
    return {name for name, finding in findings.items() if finding.status == WRONG}


def test_a_healthy_rig_has_no_defect_and_every_finding_a_figure() -> None:
    findings = {finding.name: finding for finding in diagnose(
        with_one_drafter(), PROMPTS[:1], with_one_drafter("bfloat16"))}
    assert set(findings) == {
        "features", "chat template", "thinking", "taps", "mask token", "slot 0", "slots", "rope", "draft", "confidence",
        "positions", "dtype"}
    assert not wrong(findings)
    for name, finding in findings.items():
        assert name == "chat template" or any(character.isdigit() for character in finding.seen)
        assert bool(finding.advice) == (finding.status != FINE)


def test_taps_that_differ_from_the_config_are_named() -> None:
    rig = with_one_drafter()
    findings = findings_of(replace(rig, target=TorchTarget(rig.target.model, tuple(reversed(rig.target.taps)))))
    assert wrong(findings) == {"taps"}


def reverse_taps(model: DFlashModel) -> None:
    """Reverse the tap order in the weights, so that the config's order is wrong."""
    parts = model.fc.weight.data.split(model.config.hidden_size, -1)
    model.fc.weight.data = torch.cat(list(reversed(parts)), -1)


def use_a_word_as_mask(model: DFlashModel) -> None:
    model.config.dflash_config = {**model.config.dflash_config, "mask_token_id": WORD}


def rotate_by_another_base(model: DFlashModel) -> None:
    model.config.rope_parameters = {**model.config.rope_parameters, "rope_theta": 1e6}
    model.rotary_emb = Qwen3RotaryEmbedding(model.config)


def rotate_the_wrong_pairs(model: DFlashModel) -> None:
    """Rotate the wrong pairs, as if the config did not say that neighbours turn together."""
    model.load_state_dict(neox_to_interleaved(model.state_dict(), model.config.head_dim))


class MaskedRoot(DFlashDrafter):
    """Draft with the mask token in place of the root."""

    def draft(self, root: int, width: int) -> Lattice:
        return super().draft(self.mask_id, width)


class ShiftedContext(DFlashDrafter):
    """Keep the context one position too far to the left."""

    def observe(self, token_ids, features) -> None:  # type: ignore[no-untyped-def]
        super().observe(token_ids[1:], features[1:])


@pytest.mark.parametrize(("change", "kind", "name", "advice"), [
    (reverse_taps, DFlashDrafter, "taps", "layers "),
    (use_a_word_as_mask, DFlashDrafter, "mask token", "token 3"),
    (rotate_by_another_base, DFlashDrafter, "rope", "10000"),
    (rotate_the_wrong_pairs, DFlashDrafter, "rope", "neighbours"),
    (None, MaskedRoot, "slot 0", "mask token"), (None, ShiftedContext, "draft", "model")])
def test_only_the_defect_is_named(
        change: Callable[[DFlashModel], None] | None, kind: type[DFlashDrafter], name: str, advice: str) -> None:
    rig = demo_rig()
    drafter = rig.drafters["math"]
    assert isinstance(drafter, DFlashDrafter)
    model = deepcopy(drafter.model)
    if change:
        change(model)
    findings = findings_of(replace(rig, drafters={"math": kind(model, rig.target.embedding, rig.target.logits)}))
    assert wrong(findings) == {name} and advice in findings[name].advice
    if change is reverse_taps:
        assert f"layers {', '.join(map(str, reversed(rig.target.taps)))}" in findings[name].advice


@pytest.fixture(scope="module")
def thinking_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a target whose template has a thinking switch, and a drafter for it."""
    folder = tmp_path_factory.mktemp("thinking_pair")
    write_short(folder / "target", "Qwen3-8B")
    write_short_dflash(folder / "head", "Qwen3-8B")
    return folder


@pytest.mark.parametrize("trained", [True, False])
def test_a_drafter_trained_without_thinking_scores_higher_without_it(trained: bool, thinking_pair: Path) -> None:
    change_file(thinking_pair / "head" / "config.json", {THINKING: trained})
    rig = load_rig(f"{thinking_pair / 'target'}::{thinking_pair / 'head'}", "float32")
    ids = rig.prompt_ids("Hi", (), "off")
    answer = rig.generate("Hi", method="autoregressive", thinking="off", max_tokens=60)
    assert list(answer)
    knowing = FallibleDrafter(ids, answer.token_ids)
    finding, = compare_thinking(replace(rig, drafters={**rig.drafters, "drafter": knowing}), ["Hi"], Progress())
    assert (finding.status == FINE) != trained, "thinking is on by default if the drafter was trained with it"
    assert bool(finding.advice) == trained
    with_it, without = map(float, re.findall(r"\d\.\d\d", finding.seen))
    assert without > 1.5 * with_it


def test_a_template_without_a_thinking_switch_is_not_compared() -> None:
    assert compare_thinking(demo_rig(), PROMPTS, Progress()) == []
