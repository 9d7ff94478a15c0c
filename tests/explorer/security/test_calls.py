"""Calls that Gradio would answer with an internal error, or would keep in memory for ever, are refused."""

import json
from typing import Any

import gradio as gr
import pytest
from gradio.events import api

from explorer.security.bodies import Calls, Refusal

JOIN = "/gradio_api/queue/join"


def _add(one: str, other: int = 1) -> str:
    return one * other


@pytest.fixture(scope="module")
def calls() -> Calls:
    """Provide the calls of a page with an event, 0, and a named function."""
    with gr.Blocks(analytics_enabled=False) as page:
        text = gr.Textbox()
        text.change(lambda value: value, text, text, api_visibility="private")
        api(_add, api_name="add")
    return Calls(page)


@pytest.mark.parametrize(("path", "body"), [
    (JOIN, {"data": ["x"], "fn_index": 0, "session_hash": "a1b2", "event_data": None}),
    ("/gradio_api/run/predict", {"data": ["x"], "fn_index": 0, "session_hash": "a1b2"}),
    ("/gradio_api/call/add", {"data": ["x", 2]}),
    ("/gradio_api/cancel", {"session_hash": "2f1c-9", "fn_index": 0, "event_id": "x"})])
def test_calls_of_the_page_and_of_programs_pass(calls: Calls, path: str, body: Any) -> None:
    calls.check(path, json.dumps(body).encode())


@pytest.mark.parametrize(("path", "body", "words"), [
    (JOIN, {"data": ["x"], "fn_index": 99}, "99"), (JOIN, {"data": ["x"], "fn_index": True}, "True"),
    (JOIN, {"data": ["x"]}, "'join'"), (JOIN, {"data": ["x"], "fn_index": [0]}, "[0]"),
    (JOIN, {"data": [], "fn_index": 0}, "1"), ("/gradio_api/run/nosuch", {"data": []}, "function"),
    ("/gradio_api/call/nosuch", {"data": []}, "'nosuch'"),
    ("/gradio_api/call/add", {"data": []}, "2"), ("/gradio_api/call/add", {"data": "xy"}, "'xy'"),
    ("/gradio_api/call/add", {}, "None"),
    *((JOIN, {"session_hash": name}, "64") for name in ("x" * 65, {"a": 1}, "")),
    (JOIN, [], "object"), (JOIN, None, "object"), (JOIN, "x" * 1000, "object"), *((JOIN, broken, "JSON") for broken in (
        b"", b"{", b'{"data": NaN}', b'{"data": 1e999}', b'{"data": "\\ud800"}', b"\xff", b"[" * 100_000,
        b'{"data": -Infinity}', b'{"data": ' + b"7" * 401 + b"}"))])
def test_calls_that_do_not_fit_are_refused_in_a_sentence(calls: Calls, path: str, body: Any, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        calls.check(path, body if isinstance(body, bytes) else json.dumps(body).encode())
    assert words in refusal.value.sentence and 400 <= refusal.value.status < 500
    assert refusal.value.sentence.endswith(".") and len(refusal.value.sentence) < 250


def test_only_functions_that_a_component_serves_are_called() -> None:
    with gr.Blocks(analytics_enabled=False) as page:
        part = gr.HTML(server_functions=[lambda value: value])
    calls = Calls(page)

    def call(number: Any, name: Any) -> None:
        calls.check("/gradio_api/component_server/", json.dumps({"component_id": number, "fn_name": name}).encode())

    call(part._id, "<lambda>")
    wrong = [(-1, "<lambda>"), (10**30, "<lambda>"), ([], "<lambda>"), (part._id, "render"), (part._id, [])]
    for number, name in wrong:
        with pytest.raises(Refusal) as refusal:
            call(number, name)
        assert refusal.value.status == 404
