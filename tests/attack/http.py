"""Hostile requests to the server in this process, for every endpoint that it describes (so a new one is covered), from
every kind of origin, with bodies that are nearly right."""

import asyncio
import base64
import copy
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path
from threading import Thread
from time import thread_time
from typing import Any

from hypothesis import strategies as st

from engine.trace import as_recording, dump, dumps
from explorer.page import build, guarded
from explorer.recordings import Library, shipped
from explorer.security.bodies import RUNS
from explorer.startup import Listening
from tests.attack.area import Area, BrokenError, Case
from tests.attack.asgi import Answer, ask, start_app
from tests.attack.strategies import mostly, mutated_json
from tests.attack.traces import hostile_trace
from tests.browser.other_sites import Endpoint, endpoints_of
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import current_rig

PAGE = "127.0.0.1:7860"
HEADERS: tuple[tuple[str, str | None, tuple[str, ...], int], ...] = (  # name, usual value, others, odds
    ("Host", PAGE, ("evil.example", "[::1", "", "a b", f"{PAGE}, evil.example"), 70),
    ("Content-Type", "application/json", ("text/plain", "", "application/jsonx"), 70),
    ("Origin", None, (f"http://{PAGE}", "http://evil.example", "null", "\x80"), 30),
    ("Content-Length", None, ("0", "-1", "9" * 20, "x", "12"), 150),
    ("Sec-Fetch-Site", None, ("same-origin", "cross-site", "same-site", "none", "x"), 50),
    ("X-Forwarded-Host", None, (PAGE, "evil.example", "\x80"), 60),
    ("Cookie", None, ("access-token=x", "=;=;", "\x80", "a" * 3000), 120))
PATHS = ("/..", "//", "/%2e%2e/", "/assets/../../etc/passwd", "/assets/..%2f..%2fetc/passwd", "/static/%00", "/\x80",
         "/gradio_api/heartbeat/x", "/gradio_api/queue/data?session_hash=%00", "/gradio_api/call//", "/theme.css?x",
         "/custom_component/1/client/component/../../x", *(
             f"/{folder}/{name}" for folder in ("static", "assets", "svelte")
             for name in ("x" * 300, "é" * 200, "a/" * 600, "x%00.js", "%ff")))
QUERIES = ("session_hash=x", "x=%00", "all_endpoints=true", "session_hash=" + "x" * 5000, "&&==", "%ff=%fe", "from=-1",
           "from=9e9", "from=x")
BROKEN = (b"", b"{", b"[]", b"null", b'"', b"[" * 3000, b"9" * 5000, b'{"x":' * 2000, b"\xff")
LONG_ROUNDS = 3000
MAX_SECONDS = 0.8  # of processor time for one request in the thread that answers all; the goal is 0.05
STREAM_SECONDS = 0.4  # of reading an answer that does not end
SENTENCE = re.compile(r"\S[^\n]{3,2000}[.?!]")
GRADIOS: frozenset[str] = frozenset({"Not Found", "Method Not Allowed", "Not authenticated", "Forbidden"})
MAX_GROWN_MIB = 600
# Arguments that the page could send to each of its functions, so that a mutated one passes the first check.
ARGUMENTS: dict[str, Any] = {
    "upload": {"upload": "", "data": "e30K"}, "lab_upload": {"upload": "x"},
    "export": {"kind": "trace", "run": "welcome", "round": 0}, "compare": {"run": "welcome"},
    "compared": {"job": "x"}, "rig_choose": {"rig": "nosuch"}, "lab_progress": {"sweep": None},
    "lab_curves": {"sweep": None, "what_if": None}, "lab_control": {"do": "stop", "sweep": 1},
    "lab_delete": {"sweep": 1}, "lab_prompts": {"name": "p.jsonl", "data": "eyJwcm9tcHQiOiJoaSJ9"},
    "lab_acceptance": {"run": "welcome"}, "lab_report": {"sweep": 1, "kind": "csv"}, "lab_what_if": {"run": "welcome"},
    "lab_predict_on_machine": {"run": "welcome", "model": "qwen3-8b"}, "lab_doctor": {}, "lab_job": {"job": "x"},
    "lab_start": {"set": "all", "prompts": 1, "methods": ["ddtree"], "budgets": ["auto", 8], "split": "total",
                  "temperature": 0, "repeats": 1, "max_tokens": 8},
    "lab_race": {"prompt": "hi", "methods": ["ddtree"], "budget": 8, "max_tokens": 8, "temperature": 0}}
CALLED = {"generate": ["hi", "ddtree", 8, 0.0, {"max_tokens": 8}], "trace": ["welcome", 0], "recordings": []}
RECORDINGS = ("welcome", "long", "caf\\\\xe9\\\\xff")
LINES = [Endpoint("POST", RUNS, {"prompt": "hi", "method": "ddtree", "budget": 8, "max_tokens": 8}),
         *(Endpoint(method, f"{RUNS}/{name}") for method in ("GET", "DELETE") for name in ("welcome", "long", "x1"))]
JSON = ["Content-Type", "application/json"]


@st.composite
def headers(draw: Callable[..., Any]) -> list[list[str]]:
    """Draw the headers of a request: its origin, host, content type and credentials."""
    drawn = [[name, draw(mostly(usual, *others, times=times))] for name, usual, others, times in HEADERS]
    return [header for header in drawn if header[1] is not None]


@st.composite
def requests(draw: Callable[..., Any], endpoints: list[Endpoint], trace: bytes) -> Case:
    """Draw a request, {method, url, headers, body}; most are nearly right."""
    endpoint = draw(st.sampled_from(endpoints))
    path = endpoint.path if draw(st.integers(0, 19)) else draw(st.sampled_from(PATHS))
    query = "?" + draw(st.sampled_from(QUERIES)) if draw(mostly(False, True, times=4)) else ""
    sound = copy.deepcopy(endpoint.body) or {"data": []}
    name = str(sound.get("fn_name", ""))
    if name == "open_trace":
        sound["data"] = {"name": "run.jsonl", "data": base64.b64encode(draw(st.just(trace) | hostile_trace())).decode()}
    elif name:
        recording = draw(st.sampled_from(RECORDINGS))
        sound["data"] = json.loads(json.dumps(ARGUMENTS.get(name, {})).replace("welcome", recording))
    elif (called := path.rsplit("/", 1)[-1]) in CALLED:
        sound["data"] = copy.deepcopy(CALLED[called])
    if "data" in sound:
        sound["data"] = draw(mutated_json(sound["data"], 2))
        sound["session_hash"] = f"attack{draw(st.integers(0, 49))}"
    body = json.dumps(sound if draw(st.integers(0, 3)) else draw(mutated_json(sound))).encode()
    method = draw(mostly(endpoint.method, "GET", "POST", "HEAD", "PUT", "OPTIONS", times=80))
    return {"method": method, "url": path + query, "headers": draw(headers()),
            "body": draw(mostly(body, *BROKEN, times=300)).decode("latin1")}


def logged_errors(log: str) -> Iterator[str]:
    """Yield the last line of each logged traceback, without its causes."""
    for part in log.split("Traceback (most recent call last):\n")[1:]:
        if not part.rstrip().endswith(("the following exception:", "another exception occurred:")):
            yield next((line for line in part.splitlines() if not line.startswith(" ")), "")


class Attack(Area):
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        place = Path(self._folder.name)
        sound = as_recording(scripted_trace("joint", 8), "Scripted", "", "2026-11-20")
        dump(sound, place / "welcome.jsonl")
        dump(sound, place / os.fsdecode(b"caf\xe9\xff.jsonl"))
        dump(replace(sound, entries=(sound.entries * LONG_ROUNDS)[:LONG_ROUNDS]), place / "long.jsonl")
        page, routes = build(current_rig(ScriptedSource(), ScriptedInstruments()), Library(shipped(place)),
                             results=place / "results.sqlite")
        self._app = guarded(page, routes, Listening())
        self._printed, self._log = StringIO(), StringIO()
        self._handler = logging.StreamHandler(self._log)
        logging.getLogger().addHandler(self._handler)
        self._loop = asyncio.new_event_loop()  # in a thread of its own: a browser's test may have one in this thread
        Thread(target=self._loop.run_forever, daemon=True).start()
        self._alive = self._wait(start_app(self._app))  # asyncio itself keeps no task

        def read(path: str) -> Any:
            return json.loads(self._ask("GET", f"/{path}", [["Host", PAGE]], b"").body)
        config, endpoints = read("config"), endpoints_of(read)
        self._numbers = {call["api_name"]: call["id"] for call in config["dependencies"]} | {
            part["props"].get("elem_id"): part["id"] for part in config["components"]}
        self.cases = requests([*endpoints, *LINES], dumps(scripted_trace("ddtree", 4)))
        self._size = resident_mib()

    def trial(self, case: Case) -> None:
        with redirect_stderr(self._printed):
            answer = self._ask(case["method"], case["url"], case["headers"], self._body(case).encode("latin1"))
            if answer.seconds > MAX_SECONDS:
                raise BrokenError(f"All others waited {answer.seconds:.2f} s.")
            allowed = self._check(case, answer)
            if answer.status == 200 and case["method"] == "POST" and allowed and "/call/" in case["url"]:
                self._listen(case["url"].split("?")[0], answer)
        for stream in (self._printed, self._log):
            reply = stream.getvalue().strip()
            stream.seek(0)
            stream.truncate()
            if any(not line.startswith("gradio.exceptions.Error: ") for line in logged_errors(reply)):
                raise BrokenError(f"A traceback: {reply[-300:]}")

    def close(self) -> None:
        """Check that the page still answers and that memory has grown little."""
        answer = self._ask("GET", "/", [["Host", PAGE]], b"")
        run = self._ask("POST", RUNS, [["Host", PAGE], JSON], json.dumps(LINES[0].body).encode(), 60)
        logging.getLogger().removeHandler(self._handler)
        self._wait(_cancel_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        if answer.status != 200 or b'"state":"done"' not in run.body:
            raise BrokenError(f"After all that: {answer.status}, {run.body[-300:]!r}")
        if (grown := resident_mib() - self._size) > MAX_GROWN_MIB:
            raise BrokenError(f"The server has grown by {grown:.0f} MiB.")

    def _body(self, case: Case) -> str:
        """Return the body; kept cases name functions and parts of the page, since their numbers change."""
        if not (named := case.get("named")):
            return str(case["body"])
        return json.dumps({**json.loads(case["body"]), **{field: self._numbers[name] for field, name in named.items()}})

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _ask(self, method: str, url: str, headers: list[list[str]], body: bytes, seconds: float = 0) -> Answer:
        goes_on = method != "POST" and any(part in url for part in ("heartbeat", "queue/data", "/call/"))

        async def timed() -> Answer:
            began = thread_time()
            answer = await ask(self._app, method, url, [(name, value) for name, value in headers], body,
                               seconds or (STREAM_SECONDS if goes_on else 20))
            answer.seconds = thread_time() - began
            return answer

        answered: Answer = self._wait(timed())
        return answered

    def _check(self, case: Case, answer: Answer) -> bool:
        """Return whether the page itself or a program may send this request. Raises BrokenError if the answer is not an
        allowed one."""
        status, reply, method = answer.status, answer.body, case["method"]
        sent = dict(map(tuple, case["headers"]))
        site = sent.get("Sec-Fetch-Site", "same-origin")
        allowed = (sent["Host"] == PAGE and sent.get("Origin", f"http://{PAGE}") == f"http://{PAGE}"
                   and site == "same-origin")
        if "/run/" in case["url"] and status == 500 and answer.raised is None:  # Gradio's format of an error message
            _check_error(json.loads(reply))
            return False
        stream = method == "GET" and not status
        if isinstance(answer.raised, Exception) or status >= 500 and status != 503 or not (status or stream):
            raise BrokenError(f"Status {status}: {answer.raised!r}, {reply[:200]!r}")
        safe = method in ("GET", "HEAD") and site == "none"
        if not allowed and not safe and status != 403:
            raise BrokenError(f"Status {status} for a stranger")
        if any(name.startswith("access-control") for name in answer.headers):
            raise BrokenError("Something is granted to another website")
        if 400 <= status < 500 and method != "HEAD":
            _check_refusal(reply)
        if status == 200 and "component_server" in case["url"] and method == "POST":
            value = json.loads(reply)
            if isinstance(value, dict) and isinstance(value.get("error"), str):
                _check_error(value)
        if status == 200 and reply.startswith(b'{"state":'):
            state = json.loads(reply.splitlines()[-1])
            if state.get("state") == "error":
                _check_error(state["message"])
        return bool(allowed)

    def _listen(self, path: str, answer: Answer) -> None:
        """Read the result of a call that was queued."""
        event = json.loads(answer.body)["event_id"]
        reply = self._ask("GET", f"{path.rstrip('/')}/{event}", [["Host", PAGE]], b"").body.decode()
        for line in reply.split("\n\n"):
            if line.startswith("event: error"):
                _check_error(json.loads(line.partition("data: ")[2]))


async def _cancel_tasks() -> None:
    """Cancel the page's tasks, and with them the threads that answered."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=5)


def _check_refusal(body: bytes) -> None:
    """Check that the body is a sentence, or FastAPI's list of what is wrong with each field."""
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, TypeError, KeyError):
        detail = body.decode("utf8", "replace").strip()
    if not (isinstance(detail, list) or detail in GRADIOS or isinstance(detail, str) and SENTENCE.fullmatch(detail)):
        raise BrokenError(f"Refused without a sentence: {detail[:200]!r}")


def _check_error(reply: Any) -> None:
    """Check that Gradio's error, or the one inside an object, is a sentence about an expected failure."""
    text = reply.get("error") if isinstance(reply, dict) else reply
    if not isinstance(text, str) or not SENTENCE.fullmatch(text) or "its log has the details" in text:
        raise BrokenError(f"An error without a sentence: {str(text)[:200]!r}")


def resident_mib() -> float:
    """Return the memory that this process uses now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
