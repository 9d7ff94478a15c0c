"""Calls of the page's functions that Gradio would answer with an internal error, or remember for ever."""

import json
from typing import Any

import gradio as gr
import pytest
from gradio.events import api

from explorer.security.bodies import Calls, Refusal

SERVER, JOIN = "/gradio_api/component_server", "/gradio_api/queue/join"


def _add(one: str, other: int = 1) -> str:
    return one * other


@pytest.fixture(scope="module")
def page() -> gr.Blocks:
    """A part that has a function, an event, a named function."""
    def asked(wanted: Any = None) -> Any:
        return wanted
    with gr.Blocks(analytics_enabled=False) as built:
        gr.HTML(server_functions=[asked])
        text = gr.Textbox()
        text.change(lambda value: value, text, text, api_visibility="private")
        api(_add, api_name="add")
    return built


def part(page: gr.Blocks) -> int:
    return next(int(number) for number, part in page.blocks.items() if isinstance(part, gr.HTML))


def event(page: gr.Blocks) -> int:
    return next(int(number) for number, function in page.fns.items() if function.api_name != "add")


def test_what_the_page_and_programs_send_is_let_through(page: gr.Blocks) -> None:
    calls = Calls(page)
    for path, body in (
            (SERVER, {"data": {}, "component_id": part(page), "fn_name": "asked", "session_hash": "a1b2"}),
            (JOIN, {"data": ["x"], "fn_index": event(page), "session_hash": "a1b2", "event_data": None}),
            ("/gradio_api/run/predict", {"data": ["x"], "fn_index": event(page), "session_hash": "a1b2"}),
            ("/gradio_api/call/add", {"data": ["x", 2]}), ("/gradio_api/call/v2/add", {"one": "x"}),
            ("/gradio_api/cancel", {"session_hash": "2f1c-9", "fn_index": 0, "event_id": "x"})):
        calls.check(path, json.dumps(body).encode())


@pytest.mark.parametrize(("path", "body", "words"), [
    (SERVER, {"data": {}, "component_id": -1, "fn_name": "asked", "session_hash": "a"}, "no function 'asked'"),
    (SERVER, {"data": {}, "component_id": "x", "fn_name": ["asked"], "session_hash": "a"}, "no function list"),
    (SERVER, {"data": {}, "component_id": 1, "fn_name": "__class__", "session_hash": "a"}, "no function '__class__'"),
    (SERVER, {"data": {}, "component_id": 1, "fn_name": "asked"}, "lacks its session_hash"),
    (JOIN, {"data": ["x"], "fn_index": 99, "session_hash": "a"}, "There is no function 99"),
    (JOIN, {"data": ["x"], "fn_index": True, "session_hash": "a"}, "There is no function True"),
    (JOIN, {"data": ["x"], "session_hash": "a"}, "There is no function None"),
    (JOIN, {"data": ["x"], "fn_index": 0, "session_hash": "x" * 65}, "1 to 64 letters"),
    (JOIN, {"data": ["x"], "fn_index": 0, "session_hash": {"a": 1}}, "1 to 64 letters"),
    ("/gradio_api/run/nosuch", {"data": []}, "no function"),
    ("/gradio_api/call/nosuch", {"data": []}, "no function 'nosuch'; there are add"),
    ("/gradio_api/call/add", {"data": []}, "0 values; they have to be a list of 2"),
    ("/gradio_api/call/add", {"data": "xy"}, "they have to be a list of 2"), ("/gradio_api/call/add", {}, "are None"),
    ("/gradio_api/call/v2/add", {"two": 1}, "no parameter 'two'"),
    ("/gradio_api/call/v2/add", {"one": 1, "session_hash": "a"}, "no parameter 'session_hash'"),
    ("/gradio_api/call/v2/add", {"other": 1}, "parameter one is missing"),
    (SERVER, [], "has to be an object"), (SERVER, None, "has to be an object")])
def test_what_does_not_fit_is_refused_in_a_sentence(page: gr.Blocks, path: str, body: Any, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        Calls(page).check(path, json.dumps(body).encode())
    sentence = refusal.value.sentence
    assert words in sentence and sentence.endswith(".") and 400 <= refusal.value.status < 500


@pytest.mark.parametrize("body", [b"", b"{", b'{"data": NaN}', b'{"data": 1e999}', b'{"data": "\\ud800"}', b"\xff",
                                  b"[" * 100_000, b'{"data": -Infinity}', b'{"data": ' + b"7" * 401 + b"}"])
def test_what_is_no_json_is_refused(page: gr.Blocks, body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        Calls(page).check(JOIN, body)
    assert "is no JSON" in refusal.value.sentence and refusal.value.status == 400
