"""A rig of one's own behind the page: its notes, its failures, and the demo rig in its place."""

import os

import pytest
import torch

import app
from engine.errors import RequestError
from engine.records import PromptRequest, Sampling
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import gather
from tests.engine.published import write_short, write_short_dflash


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    folder = tmp_path_factory.mktemp("own")
    target, drafter = write_short(folder / "target", "Qwen3-8B"), write_short_dflash(folder / "head", "Qwen3-8B")
    return load_rig(f"{target}::{drafter}", "float32")


def test_a_run_says_that_thinking_is_off_and_what_it_ran_on(live: Rig) -> None:
    found = gather(live.run(PromptRequest("Hi", method="joint", budget=8, max_tokens=6,
                                turns=(("user", "3 + 4?"), ("assistant", "7")))))
    assert found.header.note == "Thinking is off: a drafter of this rig was trained on answers without it."
    assert found.header.drafters == ("drafter", "ngram") and found.header.revisions["drafter"] == "head"
    text = "".join(str(found.header.pieces[token]) for token in found.header.request.prompt_ids)
    assert "3 + 4?" in text and text.endswith("<think>\n\n</think>\n\n")
    assert "expand" in live.methods and "routed" in live.methods


def test_out_of_memory_is_said_and_the_next_run_is_served(live: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has …\nand more")

    with monkeypatch.context() as patch:
        patch.setattr(live.target, "verify", full)
        with pytest.raises(RequestError) as caught:
            gather(live.run(PromptRequest("Hi", method="ddtree", budget=8, max_tokens=6)))
    assert str(caught.value).startswith("The GPU ran out of memory (2.50 GiB more was needed) at a budget of 8 nodes")
    assert gather(live.run(PromptRequest("Hi", method="ddtree", budget=8, max_tokens=6))).entries
    with monkeypatch.context() as patch:
        patch.setattr(live.target, "verify", full)
        with pytest.raises(RequestError, match="2.50 GiB more was needed. at a budget of 8"), live.in_turns(
                [PromptRequest("Hi", method="ddtree", budget=8, max_tokens=6)]) as (rounds,):
            list(rounds)
        with pytest.raises(RequestError, match="while the cost of rounds after 40 tokens was measured; lower"):
            live.curve(40, Sampling())
    assert live.curve(40, Sampling()).verify_ms


def test_only_a_rig_of_the_hub_may_look_things_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "GRADIO_ANALYTICS_ENABLED"):
        monkeypatch.setenv(name, "unset")
    for rig, may_choose in (("qwen3-8b", False), ("demo", True)):
        app.keep_offline(rig, may_choose)
        assert os.environ["HF_HUB_OFFLINE"] == "unset" and os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    app.keep_offline("demo", False)
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"
