"""Another rig for the page: loaded while the old one answers, adopted when nobody runs, refused in a sentence."""

from collections.abc import Callable
from pathlib import Path

import pytest

import app
from engine.errors import RequestError
from engine.records import PromptRequest
from engine.trace import trace_from_lines
from explorer import rig_choice
from explorer.lab.lab import Lab
from explorer.rig_choice import RIG_IS_FIXED, RigChoice
from tests.explorer.scripted import ENDLESS, ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments, ScriptedLaboratory
from tests.explorer.scripted_lab import FORM
from tests.explorer.scripted_rigs import ASK, PageWithRigs, header_of, wait_for_end
from tests.running import until

SOME = ("autoregressive", "ddtree")


def is_loaded_and_waiting(rigged: PageWithRigs) -> bool:
    return "as soon as the run" in (rigged.state()["loading"] or {"message": ""})["message"]


def test_the_old_rig_answers_until_the_new_one_is_loaded_and_is_then_released() -> None:
    rigged = PageWithRigs(methods=SOME)
    first = rigged.rig.source
    assert isinstance(first, ScriptedSource)
    rigged.choose(" second ", until_begun=True)
    assert rigged.state()["loading"] == {"name": "second", "message": "Reading the weights …", "share": 0.5}
    assert trace_from_lines(rigged.rig.source.prepare(ASK).lines()).header.rig == "first rig" and not first.released
    now = rigged.finish_loading()
    assert {key: now[key] for key in ("rig", "opened_as", "generation", "failure", "good_at")} == {
        "rig": "second rig", "opened_as": "second", "generation": 1, "failure": "", "good_at": "It is good at second."}
    assert trace_from_lines(rigged.rig.source.prepare(ASK).lines()).header.rig == "second rig"
    assert first.released and rigged.rig.source.methods == SOME


@pytest.mark.parametrize(("failure", "words"), [
    (None, "no rig 'nonsense'"), (ZeroDivisionError("hidden"), "an internal error (ZeroDivisionError)")])
def test_a_failure_is_reported_and_the_old_rig_continues_to_answer(failure: Exception | None, words: str) -> None:
    rigged = PageWithRigs()
    rigged.rigs.failure = failure
    rigged.choose("nonsense")
    now = rigged.finish_loading()
    assert words in now["failure"] and "hidden" not in now["failure"]
    assert (now["rig"], now["generation"]) == ("first rig", 0)
    rigged.rigs.failure = None
    rigged.choose("second")
    assert rigged.finish_loading()["failure"] == "" and rigged.rig.source.name == "second rig"


def test_costs_are_measured_again_after_a_run_has_interrupted_that(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def measure(_: object, interrupt: Callable[[], None]) -> None:
        tries.append("begun")
        if len(tries) == 1:
            until(interrupt)
    monkeypatch.setattr(ScriptedInstruments, "measure_cost_roughly", measure)
    monkeypatch.setattr(rig_choice, "COST_PAUSE_SECONDS", 0.05)
    rigged = PageWithRigs()
    rigged.choose("second")
    rigged.finish_loading()
    until(lambda: tries)
    with rigged.queue.enter() as run:
        until(lambda: run.admitted)
        assert tries == ["begun"]
    until(lambda: len(tries) == 2)


@pytest.mark.parametrize("loaded", [False, True])
def test_cancelling_changes_nothing(loaded: bool) -> None:
    rigged = PageWithRigs()
    rigged.choose("second", until_begun=True)
    with rigged.queue.enter():
        if loaded:
            rigged.rigs.may_open.set()
            until(lambda: is_loaded_and_waiting(rigged))
        loading = rigged.choice.cancel({})["loading"]
        assert loading and "Cancelling" in loading["message"]
        now = rigged.finish_loading()
    assert (now["rig"], now["failure"], now["generation"]) == ("first rig", "", 0)
    assert rigged.choice.cancel({})["loading"] is None


def test_a_rig_that_cannot_be_loaded_now_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_choice, "MAX_IDLE_WAIT_SECONDS", 0.05)
    rigged = PageWithRigs()

    def refused(name: str, words: str, choice: RigChoice = rigged.choice) -> None:
        with pytest.raises(RequestError, match=words):
            choice.choose({"rig": name})
    for wrong in ("", "  ", "x" * 501):
        refused(wrong, "500")
    refused("first", "first")
    with rigged.queue.enter():
        refused("second", "progress")
    assert rigged.rigs.beside == []
    rigged.choose("second")
    refused("third", "second")
    rigged.finish_loading()
    refused("third", RIG_IS_FIXED, RigChoice(rigged.rig, rigged.queue))


def test_a_run_that_began_during_loading_ends_on_its_own_rig() -> None:
    rigged = PageWithRigs()
    rigged.choose("second", until_begun=True)
    run = rigged.runner.start(PromptRequest(ENDLESS, method="ddtree", budget=16))
    until(lambda: len(run.lines) > 1)
    rigged.rigs.may_open.set()
    until(lambda: is_loaded_and_waiting(rigged))
    assert header_of(run).rig == rigged.rig.source.name == "first rig" and not run.ended
    run.stop()
    assert rigged.finish_loading()["rig"] == header_of(rigged.run_to_end()).rig == "second rig"


def test_the_lab_measures_the_current_rig_and_no_sweep_resumes_with_another(tmp_path: Path) -> None:
    rigged = PageWithRigs(methods=SOME)
    lab = Lab(rigged.rig, lambda run: scripted_trace("joint", 8), rigged.queue, tmp_path / "results.sqlite")
    with rigged.queue.exclusive(lambda _: None):  # so that it does not end before it is paused
        number = lab.start(FORM)["sweep"]
        lab.control({"do": "pause", "sweep": number})
        until(lambda: lab.progress({})["state"] == "paused")
    rigged.choose("second")
    rigged.finish_loading()
    laboratory = rigged.rig.instruments.laboratory
    assert isinstance(laboratory, ScriptedLaboratory)
    laboratory.asked.clear()
    with pytest.raises(RequestError, match="1.*first.*second"):
        lab.control({"do": "resume", "sweep": number})
    lab.start({**FORM, "methods": list(SOME), "prompts": 1})
    until(lambda: lab.progress({})["state"] == "done")
    assert laboratory.asked and "--rig second" in lab.progress({})["command"]


@pytest.mark.parametrize(("flags", "may"), [
    ([], True), (["--host", "localhost"], True), (["--host", "0.0.0.0"], False), (["--rig-choice", "off"], False),
    (["--host", "0.0.0.0", "--rig-choice", "on"], True), (["--host", "0.0.0.0", "--auth", "ada:x"], True)])
def test_a_public_server_offers_no_choice_of_rigs_by_default(flags: list[str], may: bool) -> None:
    reason = app.rig_choice_disabled(app.flags().parse_args(flags))
    assert may == (not reason) and (may or "--rig-choice" in reason)


def test_a_run_waits_for_the_first_rig_and_shows_its_progress() -> None:
    rigged = PageWithRigs("second")
    assert rigged.rigs.began.wait(20)
    state = rigged.state()
    assert state["loading"] and state["first_load"] == state["loading"]["name"] == "second"
    run = rigged.runner.start(ASK)
    until(lambda: run.state_line["state"] == "queued")
    assert all(fact in run.state_line["message"] for fact in ("second", "50%"))
    with pytest.raises(RequestError, match="second"):
        rigged.choose("third")
    rigged.rigs.may_open.set()
    assert wait_for_end(run).state_line["state"] == "done"
    assert (header_of(run).rig, header_of(run).note) == ("second rig", "")
    now = rigged.finish_loading()
    assert (now["rig"], now["generation"], now["failure"], now["loading"]) == ("second rig", 1, "", None)


def test_if_the_first_rig_fails_the_embedded_one_answers_and_gives_the_reason() -> None:
    rigged = PageWithRigs("nonsense")
    now = rigged.finish_loading()
    assert now["rig"] == "demo rig" and "'nonsense'" in now["failure"]
    assert header_of(rigged.run_to_end()).note == now["failure"]
    rigged.choose("second")
    until(lambda: rigged.rig.source.name == "second rig")
    assert header_of(rigged.run_to_end()).note == ""


def test_if_no_rig_can_be_loaded_the_recordings_give_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    rigged = PageWithRigs("second")
    rigged.rigs.failure = ZeroDivisionError("hidden")
    now = rigged.finish_loading()
    assert now["rig"] == "recordings" and now["reason"] == now["failure"]
    assert all(fact in now["failure"] for fact in ("second", "ZeroDivisionError")) and "hidden" not in now["failure"]
    assert rigged.rigs.beside == ["recordings"] * 2, "the embedded rig was tried too"
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError] * 2
    assert rigged.run_to_end().state_line["message"].startswith(now["failure"])
    rigged.rigs.failure = None
    rigged.choose("second")
    until(lambda: rigged.rig.source.name == "second rig")


def test_a_page_without_a_choice_of_rigs_still_loads_its_first_one(tmp_path: Path) -> None:
    rigged = PageWithRigs("second", choice_disabled="Not here.")
    lab = Lab(rigged.rig, lambda run: scripted_trace("joint", 8), rigged.queue, tmp_path / "results.sqlite")
    with pytest.raises(RequestError, match="second"):
        lab.setup()
    with pytest.raises(RequestError):
        lab.start(FORM)
    assert rigged.finish_loading()["rig"] == "second rig" and lab.setup()["reason"] == ""
    with pytest.raises(RequestError, match="Not here"):
        rigged.choose("third")
