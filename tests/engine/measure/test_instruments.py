"""The live rig as a laboratory, and the change to another rig: the old one is freed, too little memory is an error."""

import gc
import json
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import app
from engine.budget.cost import CostCurve
from engine.checkpoints import memory
from engine.checkpoints.memory import LoadContext
from engine.errors import CancellationError, RequestError, RigError
from engine.lab.reading import Reading, reading_of
from engine.measure import instruments
from engine.measure.instruments import LiveInstruments, LiveLaboratory, open_beside, weight_bytes
from engine.records import PromptRequest, Sampling
from engine.requests.admission import Admission
from engine.serving import rigs
from engine.serving.precision import storage_of
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig
from engine.trace import trace_from_lines
from explorer.rig import CurrentRig
from explorer.rig_choice import RigChoice
from tests.engine.demo import demo_live
from tests.engine.lab.scripted import CURVE
from tests.engine.published import write_short, write_short_dflash
from tests.running import completed, until

PROMPT = "Lena has 4 bags with 7 marbles in each bag. How many marbles does she have?"


@pytest.fixture(scope="module")
def laboratory() -> LiveLaboratory:
    return LiveLaboratory(demo_live())


def make_request(method: str = "ddtree", budget: int = 8, max_tokens: int = 4, **more: Any) -> PromptRequest:
    return PromptRequest(PROMPT, method=method, budget=budget, max_tokens=max_tokens, **more)


@pytest.mark.parametrize("ask", [
    make_request("joint", 24, 30), make_request("merged", 16, 30, sampling=Sampling(0.8, seed=4), split="each"),
    make_request("autoregressive", 0, 12)], ids=lambda ask: ask.method)
def test_a_reading_equals_the_trace_of_the_same_run(laboratory: LiveLaboratory, ask: PromptRequest) -> None:
    reading, trace = laboratory.measure(ask), trace_from_lines(laboratory.rig.run(ask))
    times = ("round_seconds", "prefill_seconds", "stage_seconds")
    traced = replace(reading_of(trace), **{name: getattr(reading, name) for name in times})
    assert reading == traced and reading.token_ids and reading.prefill_seconds > 0
    assert reading.seconds == pytest.approx(sum(reading.stage_seconds.values()), rel=0.2)
    assert laboratory.pieces(reading.token_ids).keys() == set(reading.token_ids)


@pytest.mark.usefixtures("quick_curves")
@pytest.mark.parametrize(("method", "budget", "pace"), [
    ("joint", 24, "fixed"), ("autoregressive", 0, "fixed"), ("ddtree", 64, "auto")])
def test_a_concurrent_run_writes_its_own_text_and_counts_all(
        laboratory: LiveLaboratory, method: str, budget: int, pace: str) -> None:
    ask = make_request(method, budget, 16, pace=pace)
    others = tuple(replace(ask, prompt=f"What is {number} + 5?", max_tokens=4 + number) for number in range(2))
    alone, concurrent = laboratory.measure(ask), laboratory.measure_concurrent(ask, others, 3)
    assert concurrent.token_ids == alone.token_ids and concurrent.prefill_seconds > 0
    assert concurrent.lengths == alone.lengths or pace == "auto"  # an adaptive run depends on times
    assert all(count >= length + 2 for count, length in zip(concurrent.committed, concurrent.lengths, strict=True))
    assert concurrent.total_tokens_per_second > 1.5 * concurrent.tokens_per_second
    assert concurrent.seconds == pytest.approx(sum(concurrent.stage_seconds.values()), rel=0.3)


class CancelAtCall:
    """Cancel a measurement at call number ``last``; count the calls and keep the time of the last."""

    def __init__(self, last: int) -> None:
        self.last, self.calls, self.ended = last, 0, 0.0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls >= self.last:
            self.ended = time.perf_counter()
            raise CancellationError("Another run came.")


@pytest.mark.parametrize("measuring", ["cost", "in turns", "in turns at auto"])
@pytest.mark.parametrize("last", [1, 3, 200])
def test_a_measurement_is_cancelled_in_the_middle_of_a_pass(measuring: str, last: int) -> None:
    live, interrupt = LiveInstruments(demo_live()), CancelAtCall(last)
    trace = trace_from_lines(live.source.run(make_request(max_tokens=12, sampling=Sampling(0.7, top_p=0.9))))
    ask = make_request(max_tokens=100, pace="auto" if measuring.endswith("auto") else "fixed")
    with pytest.raises(CancellationError):
        if measuring == "cost":
            live.measure_cost(trace, interrupt)
        with live.interleaved([ask, make_request("autoregressive", 0, 100)], interrupt) as sources:
            for rounds in sources:
                list(rounds)
    assert time.perf_counter() - interrupt.ended < 0.5
    assert live.known_cost(trace) is None, "a cancelled measurement is not kept"
    assert live.laboratory.measure(make_request()).token_ids, "the rig is free, and its passes are complete"


def test_a_rough_cost_curve_is_used_until_a_finer_one_is_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveInstruments(demo_live())
    trace = trace_from_lines(live.source.run(make_request(max_tokens=4)))
    assert not live.gains
    live.measure_cost_roughly(lambda: None)
    rough = live.known_cost(trace)
    live.measure_cost(trace, lambda: None)
    monkeypatch.setattr(CostCurve, "unusable_reason", "")
    assert rough and live.known_cost(trace) is not rough
    assert all(0 < low < high for low, high in live.gains.values())
    monkeypatch.setattr(CostCurve, "unusable_reason", "Other programs used the machine.")
    assert live.known_cost(trace) is rough


def test_a_budget_whose_passes_cost_more_promises_less(monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveInstruments(demo_live())
    monkeypatch.setattr(live.source.costs, "best_known", lambda context: CURVE)
    assert live.gains[1] > live.gains[1024]


def test_a_measurement_can_be_cancelled_before_every_layer(laboratory: LiveLaboratory) -> None:
    interrupt = CancelAtCall(10**9)
    with LiveInstruments(laboratory.rig).interleaved([make_request("autoregressive", 0, 3)], interrupt) as (rounds,):
        assert len(list(rounds)) == 3
    assert interrupt.calls == 4 * laboratory.rig.target.config.num_hidden_layers, "one prefill and three rounds"


def test_a_measurement_waits_for_the_rig_and_does_not_count_the_wait(laboratory: LiveLaboratory) -> None:
    other, readings = laboratory.rig.run(make_request(max_tokens=20)), list[Reading]()
    next(other)
    worker = threading.Thread(target=lambda: readings.append(laboratory.measure(make_request("autoregressive", 0, 2))))
    worker.start()
    time.sleep(1.5)
    assert not readings
    other.close()
    worker.join(60)
    assert readings[0].prefill_seconds + readings[0].seconds < 1.5


def test_a_refused_request_leaves_the_rig_free(laboratory: LiveLaboratory) -> None:
    long = replace(make_request(), prompt="word " * 5000)
    for ask, named in ((PromptRequest(" "), "prompt"), (long, "tokens"), (make_request(drafters=("nobody",)), "nobody"),
                       (make_request(budget=-1), "budget")):
        with pytest.raises(RequestError, match=named):
            laboratory.measure(ask)
    with pytest.raises(RequestError, match="tokens"):
        laboratory.measure_concurrent(make_request(), [long], 2)
    assert laboratory.measure(make_request("dflash")).token_ids


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Provide the names of two small rigs."""
    folder = tmp_path_factory.mktemp("rigs")
    target, drafter = write_short(folder / "qwen", "Qwen3-8B"), write_short_dflash(folder / "head", "Qwen3-8B")
    other = write_short(folder / "llama", "Llama-3.1-8B-Instruct")
    return f"{target}::{drafter}", f"{other}::ngram"


def opened(name: str, report: Callable[[str, float | None], None] = lambda message, share: None) -> LiveInstruments:
    return open_beside(None, name, "bfloat16", report, Admission())


def test_a_switch_in_the_app_frees_the_old_rig(names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[weakref.ref[Any]] = []

    def load(*given: Any, **named: Any) -> Rig:
        rig = load_rig(*given, **named)
        loaded.append(weakref.ref(rig.target.model))
        return rig

    monkeypatch.setattr(instruments, "load_rig", load)
    page, _ = app.build_page(app.flags().parse_args(["--rig", names[0]]), app.library(None, "demo"))
    stage: Any = next(block for block in page.blocks.values() if block.elem_id == "canopy-stage")
    completed(page.run_extra_startup_events())

    def state() -> dict[str, Any]:
        read: dict[str, Any] = json.loads(stage.rig_state({}).body)
        return read

    until(lambda: state()["rig"] == "qwen" and not state()["first_load"])
    former = loaded[0]()  # held as by a call that began before the switch
    stage.rig_choose({"rig": names[1]})
    until(lambda: state()["rig"] == "llama" and state()["loading"] is None)
    gc.disable()  # the last reference must free it, not a collection
    try:
        assert (state()["opened_as"], state()["failure"]) == (names[1], "") and former
        del former
        until(lambda: loaded[0]() is None)
    finally:
        gc.enable()


def test_a_rig_that_does_not_fit_is_refused_and_the_current_one_stays(
        names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    rig = CurrentRig(opened(names[0], lambda message, share: reported.append(message)))
    assert reported == ["Reading the weights of qwen …", "Reading the drafters …"]
    assert isinstance(rig.source, Rig)
    models = [rig.source.target.model, rig.source.drafters["drafter"].model]  # type: ignore[attr-defined]
    held = weight_bytes(rig.source)
    assert held == 2 * sum(value.numel() for model in models for value in model.parameters())
    monkeypatch.setattr(memory, "free_bytes", lambda device: held + 100_000)
    admission = Admission()
    choice = RigChoice(rig, admission, partial(app.open_rig, "bfloat16", admission), free_memory=app.free_memory)
    choice.choose({"rig": names[1]})
    until(lambda: choice.state({})["loading"] is None)
    failure = choice.state({})["failure"]
    assert failure.startswith("The rig needs about") and "GB free beside the qwen; choose" in failure
    assert failure.endswith("the qwen goes on answering.") and rig.source.name == "qwen"
    monkeypatch.setattr(memory, "free_bytes", lambda device: held + 2_000_000_000)
    choice.choose({"rig": names[1]})
    until(lambda: rig.source.name == "llama")
    assert rig.instruments.laboratory.conditions.rig == "llama"


def test_the_old_rigs_memory_counts_on_a_cpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1_000_000)
    text: Any = SimpleNamespace(num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, head_dim=1,
                                hidden_size=1, max_position_embeddings=64)
    storage = storage_of("bfloat16")
    memory.check_memory(1000, text, storage, torch.device("cuda"), LoadContext(other_rig_bytes=10**12))
    with pytest.raises(RigError, match=r"0\.0 GB.*old"):
        memory.check_memory(1000, text, storage, torch.device("cpu"),
                            LoadContext(other_rig="old", other_rig_bytes=10**12))


def test_a_cancelled_opening_reads_no_weights_and_a_full_memory_is_an_error(
        names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel(message: str, share: float | None) -> None:
        raise CancellationError("Somebody changed their mind.")

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.\nmore")

    monkeypatch.setattr(rigs, "load_causal", lambda *_: pytest.fail("the weights were read"))
    with pytest.raises(CancellationError):
        opened(names[0], cancel)
    monkeypatch.setattr(rigs, "load_causal", full)
    with pytest.raises(RigError) as caught:
        opened(names[0])
    assert "The GPU ran out of memory while" in str(caught.value) and "\n" not in str(caught.value)
