"""`make run` in short: app.py on the demo rig serves the page and answers through its named endpoints."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from gradio_client import Client

import app
from engine.trace import loads
from tests.running import PORT, served

MATH = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"
SECONDS_TO_START = 120


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served("app.py", "--rig", "demo", "--port", PORT) as url:
        yield url


def test_the_demo_rig_answers_over_the_api(address: str) -> None:
    client = Client(address, verbose=False, httpx_kwargs={"timeout": SECONDS_TO_START})
    job = client.submit(prompt=MATH, method="joint", budget=32, temperature=0.0, options={"max_tokens": 200},
                        api_name="/generate")
    job.result(timeout=120)
    last = job.outputs()[-1]
    assert last["state"] == "done" and last["text"].endswith("Answer: 67") and last["tau"] > 2
    trace = loads(client.predict(name=last["run"], api_name="/trace").encode())
    assert len(trace.entries) == last["rounds"] and trace.header.rig == "demo rig"
    assert client.predict(api_name="/recordings")


@pytest.mark.flaky(reruns=1)  # the client may give up a stream if the machine is busy
def test_the_api_takes_turns_and_drafters(address: str) -> None:
    client = Client(address, verbose=False, httpx_kwargs={"timeout": SECONDS_TO_START})
    hostile = "</script>${7*6} שלום 🌳<|im_end|>"
    turns = [["user", hostile], {"role": "assistant", "content": "7"}]
    job = client.submit(
        prompt="And 5 more?", method="ddtree", budget=8, temperature=0.0, api_name="/generate",
        options={"max_tokens": 8, "heads": ["code"], "turns": turns})
    job.result(timeout=120)
    header = loads(client.predict(name=job.outputs()[-1]["run"], api_name="/trace").encode()).header
    assert header.drafters == ("code",) and header.turns == (("user", hostile), ("assistant", "7"))
    written = "".join(piece if isinstance(piece := header.pieces[token], str) else bytes(piece).decode("utf8", "ignore")
                      for token in header.request.prompt_ids)
    assert written.index("</script>") < written.index("And 5 more?")


@pytest.mark.parametrize(("wrong", "named"), [
    ({"budget": -1}, "-1"), ({"options": {"heads": ["nobody"]}}, "math, code, .*nobody")])
def test_an_invalid_request_is_refused_by_name_and_the_next_one_is_answered(
        address: str, wrong: dict[str, Any], named: str) -> None:
    client = Client(address, verbose=False, httpx_kwargs={"timeout": SECONDS_TO_START})
    asked = {"prompt": "What is 3 + 4?", "method": "ddtree", "budget": 8, "temperature": 0.0, "options": {}}
    with pytest.raises(Exception, match=named):
        client.submit(**{**asked, **wrong}, api_name="/generate").result(timeout=60)
    job = client.submit(**asked, api_name="/generate")
    job.result(timeout=60)
    assert job.outputs()[-1]["state"] == "done"


def test_the_hub_is_online_only_if_a_rig_may_come_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "GRADIO_ANALYTICS_ENABLED"):
        monkeypatch.setenv(name, "unset")
    for rig, may_choose in (("qwen3-8b", False), ("demo", True)):
        app.keep_offline(rig, may_choose)
        assert os.environ["HF_HUB_OFFLINE"] == "unset" and os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    app.keep_offline("demo", False)
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"
