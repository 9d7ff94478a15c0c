"""An attached server as a rig of the page: chosen by its address, run, attached again, shown in the lab."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import app
from engine.commands.program import UsageError
from engine.decoding.methods import SERVED
from engine.errors import RequestError, RigError
from engine.records import PromptRequest
from engine.requests.admission import Admission
from engine.trace import dumps, loads
from explorer.attached import attach
from explorer.lab.lab import Lab
from explorer.rig import CurrentRig
from tests.engine.servers.scripted_server import (
    CHAT,
    DONE,
    MODELS,
    answers,
    chunk,
    drips,
    models,
    one,
    says,
    scripted,
    streams,
    vllm,
)
from tests.engine.servers.test_answers import DFLASH
from tests.engine.servers.test_client import PLAIN
from tests.explorer.scripted import scripted_trace
from tests.explorer.scripted_rigs import PageWithRigs, call_function, header_of, scripted_rig, start_run, wait_for_end
from tests.running import until

ASK = PromptRequest("How many?", method=SERVED, budget=64, max_tokens=200)
DFLASH_ANSWER, SHORT = answers("dflash.txt"), streams(chunk("a"), DONE)


@contextmanager
def attached_rig(answer: bytes = b"", **script: Any) -> Iterator[tuple[CurrentRig, Any]]:
    """Yield a rig of a scripted server, and the server, which replies with ``answer`` after it was attached."""
    with scripted(**script or vllm()) as server:
        rig = CurrentRig(attach(server.address, lambda *_: None))
        if answer:
            server.replies[CHAT] = streams(answer)
        yield rig, server


def test_chunks_that_are_decoding_steps_make_one_run() -> None:
    with attached_rig(DFLASH_ANSWER) as (rig, _):
        run = wait_for_end(start_run(rig, ASK))
    trace, header = run.trace(), header_of(run)
    assert trace and run.state_line["state"] == "done"
    assert [len(entry.round.acceptance.keep) for entry in trace.entries] == DFLASH
    assert header.engine == "vLLM 0.32.0" and header.request.method == SERVED
    assert run.about["remark"].startswith("vLLM's own figures")
    assert loads(dumps(trace), "run").end.note == trace.end.note
    lab = Lab(CurrentRig(scripted_rig("first")), lambda run: trace, Admission(), Path("nowhere"))
    drawn = lab.acceptance({"run": "theirs"})  # the server reports no confidences
    assert "mean 9.88" in drawn["lengths"]["summary"] and drawn["calibration"] is None


def test_a_server_that_disconnects_leaves_its_rounds_and_an_error_message() -> None:
    script: dict[str, Any] = {"models": says(models("vllm")), "chat": SHORT}
    with attached_rig(one("a") + one(" b") + one(" c"), **script) as (rig, _):
        run = wait_for_end(start_run(rig, ASK))
    trace = run.trace()
    assert run.state_line["state"] == "error" and run.state_line["message"]
    assert trace and len(trace.entries) == 2, "the received rounds are kept"


@pytest.mark.slow
def test_a_server_can_be_chosen_as_a_rig_only_by_people_who_may_choose() -> None:
    open_rig = partial(app.open_rig, "auto", Admission())
    with scripted(**vllm()) as script:
        rigged = PageWithRigs(open_rig=open_rig)
        rigged.choose(f" {script.address}/v1/ ")
        now = rigged.finish_loading()
        assert (now["rig"], now["opened_as"], now["failure"]) == (f"demo at {script.address}", script.address, "")
        assert now["reason"] and list(rigged.rig.source.methods) == [SERVED]
        asked = len(script.asked)
        reason = app.rig_choice_disabled(app.flags().parse_args(["--host", "0.0.0.0"]))
        with pytest.raises(RequestError, match="--rig-choice"):
            PageWithRigs(choice_disabled=reason, open_rig=open_rig).choose(script.address)
        assert len(script.asked) == asked, "no request is sent to a foreign address"
    rigged = PageWithRigs(open_rig=open_rig)
    rigged.choose("http://127.0.0.1:1")
    now = rigged.finish_loading()
    assert "http://127.0.0.1:1" in now["failure"] and "first rig" in now["failure"]
    assert now["rig"] == "first rig" and rigged.run_to_end().state_line["state"] == "done"


def test_a_password_in_an_address_is_refused_before_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rigged, written = PageWithRigs(open_rig=partial(app.open_rig, "auto", Admission())), "http://ada:secret@127.0.0.1:1"
    with pytest.raises(RigError) as refused:
        rigged.choose(written)
    assert "secret" not in str(refused.value) + str(rigged.state())
    with pytest.raises(UsageError) as unread:
        app.flags().parse(["--rig", written])
    assert "secret" not in str(unread.value) + "".join(capsys.readouterr())
    assert app.flags().parse(["--rig", "HTTP://host:1/v1/"]).rig == "http://host:1"


def test_the_lab_offers_the_servers_tab_alone(tmp_path: Path) -> None:
    with attached_rig() as (rig, script):
        lab = Lab(rig, lambda run: scripted_trace("joint", 8), Admission(), tmp_path / "results.sqlite")
        given, functions = lab.setup(), lab.functions()
        assert given["server"] and given["reason"] and given["methods"] == []
        look = call_function(functions, "lab_server_counters")
        assert all(fact in look["about"] for fact in ("vLLM 0.32.0", "demo", "5.90"))
        assert look["places"]["data"][0]["y"][0] == pytest.approx(100 * 17 / 30) and look["traffic"] is None
        script.replies[CHAT] = says('{"usage": {"completion_tokens": 5}}')
        job = call_function(functions, "lab_server_concurrency", set="bench")
        until(lambda: call_function(functions, "lab_job", **job)["state"] in ("done", "error"))
        measured = call_function(functions, "lab_job", **job)
        assert measured["state"] == "done"
        assert measured["result"]["figure"]["data"][0]["x"] == ["1", "2", "4", "8", "16"]
        assert "error" in call_function(functions, "lab_server_concurrency", set="no such set")
        assert "Load" in call_function(functions, "lab_start")["error"]
        rig.replace(scripted_rig("first"))
        assert not lab.setup()["server"]
        assert call_function(functions, "lab_server_counters")["error"]


@pytest.mark.parametrize("first", [b"", chunk("a") + chunk("b")], ids=["before the first token", "in the middle"])
def test_a_run_that_waits_for_a_server_ends_at_once_when_it_is_stopped(first: bytes) -> None:
    gone, queue = Event(), Admission()

    with attached_rig(models=MODELS, chat=SHORT) as (rig, script):
        script.replies[CHAT] = drips(PLAIN + first, b": still here\n", 0.05, gone.set)
        run = start_run(rig, ASK, queue)
        until(lambda: queue.running() == 1 and (run.lines or not first))
        run.stop()
        assert gone.wait(10) and wait_for_end(run).state_line["state"] == "stopped" and queue.running() == 0
