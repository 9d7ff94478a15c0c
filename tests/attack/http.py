"""Hostile requests, asked of the whole server in this process: of every endpoint that the server itself describes, so
that a new one is covered by itself, from every kind of place, with bodies that are nearly right."""

import asyncio
import base64
import copy
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

from engine.trace import dump, dumps, recorded
from explorer.opening import Listening
from explorer.page import build, guarded
from explorer.recordings import Library, shipped
from tests.attack.area import Area, BrokenError, Case
from tests.attack.asgi import Answer, Complaints, ask, started
from tests.attack.mutations import bent
from tests.attack.traces import hostile
from tests.browser.other_sites import Endpoint, endpoints_of
from tests.explorer.scripted import ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_rigs import answering

PAGE = "127.0.0.1:7860"
HOSTS = ("evil.example", "127.0.0.1.evil.example", "[::1", "", "a b", "127.0.0.1:7860, evil.example", "x" * 400,
         "[::2]")
ORIGINS = ("http://evil.example", "null", "", "http://127.0.0.1:7861", "http://[::1]:7860",
           "http://localhost:7860", "file://", "\x80")
KINDS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonx",
         "text/json", "image/svg+xml")
PATHS = ("/gradio_api/file=/etc/passwd", "/gradio_api/proxy=http://x/", "/gradio_api/upload", "/..", "//", "/%2e%2e/",
         "/assets/../../etc/passwd", "/assets/..%2f..%2fetc/passwd", "/static/%00", "/svelte/../x", "/\x80", "/login/x",
         "/gradio_api/heartbeat/x", "/gradio_api/queue/data?session_hash=%00", "/gradio_api/call//", "/theme.css?x",
         "/custom_component/1/client/component/../../x", *(
             f"/{folder}/{name}" for folder in ("static", "assets", "svelte")
             for name in ("x" * 300, "é" * 200, "a/" * 600, "x%00.js", "%ff")))
COSTLY = (b'{"data":[' + b",".join([b"7" * 4200] * 480) + b"]}", b'{"data":[' + b"[]," * 49_000 + b"0]}",
          b'{"data":"' + b"\\u00e9" * 300_000 + b'"}', b'{"data":["welcome",' + b"7" * 2**20 + b"]}",
          b'{"data":[' + b"[" * 900 + b"]" * 900 + b"]}", b'{"data":[' + b"0.5," * 49_000 + b"1e99]}", b" " * 2**21)
LONG_ROUNDS = 3000
MAX_SECONDS = 0.3  # of processor time that the thread which answers all may take at once; 0.05 are meant
STREAM_SECONDS = 0.4  # that an answer which goes on is listened to
SENTENCE = re.compile(r"\S[^\n]{3,2000}[.?!]")
MAX_GROWN_MIB = 600
# What a page sends of each of its functions, near enough for a mutation to reach past the first check.
SOUND: dict[str, Any] = {
    "upload": {"upload": "", "data": "e30K"}, "lab_upload": {"upload": "x"},
    "export": {"kind": "trace", "run": "welcome", "round": 0}, "compare": {"run": "welcome"},
    "compared": {"job": "x"}, "rig_choose": {"rig": "nosuch"}, "lab_progress": {"sweep": None},
    "lab_curves": {"sweep": None, "what_if": None}, "lab_control": {"do": "stop", "sweep": 1},
    "lab_delete": {"sweep": 1}, "lab_prompts": {"name": "p.jsonl", "data": "eyJwcm9tcHQiOiJoaSJ9"},
    "lab_acceptance": {"run": "welcome"}, "lab_report": {"sweep": 1, "kind": "csv"}, "lab_what_if": {"run": "welcome"},
    "lab_elsewhere": {"run": "welcome", "model": "qwen3-8b"}, "lab_doctor": {}, "lab_job": {"job": "x"},
    "lab_start": {"set": "all", "prompts": 1, "methods": ["ddtree"], "budgets": ["auto", 8], "split": "total",
                  "temperature": 0, "repeats": 1, "max_tokens": 8},
    "lab_race": {"prompt": "hi", "methods": ["ddtree"], "budget": 8, "max_tokens": 8, "temperature": 0}}
RUNS = ("welcome", "welcome", "welcome", "long", "caf\\\\xe9\\\\xff")
CALLED = {"generate": ["hi", "ddtree", 8, 0.0, {"max_tokens": 8}], "replay": ["welcome", 0], "trace": ["welcome", 0],
          "lessons": []}


class Http(Area):
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        place = Path(self._folder.name)
        sound = recorded(scripted_trace("joint", 8), "Scripted", "", "2026-11-20")
        entries = (sound.entries * LONG_ROUNDS)[:LONG_ROUNDS]
        dump(sound, place / "welcome.jsonl")
        dump(sound, place / os.fsdecode(b"caf\xe9\xff.jsonl"))
        dump(replace(sound, entries=entries), place / "long.jsonl")
        page, routes = build(answering(ScriptedSource(), ScriptedInstruments()), Library(shipped(place)),
                     results=place / "results.sqlite")
        self._app = guarded(page, routes, Listening())
        self._complaints, self._stderr = Complaints(), StringIO()
        logging.getLogger().addHandler(self._complaints)
        self._loop = asyncio.new_event_loop()
        self._alive = self._loop.run_until_complete(started(self._app))
        self._endpoints = endpoints_of(self._described)
        self._sound = dumps(scripted_trace("ddtree", 4))
        self._size = resident_mib()
        self._longest = 0.0  # seconds that one step of the loop took
        asyncio.Handle._run = self._timed(asyncio.Handle._run)  # type: ignore[method-assign, assignment]

    def _timed(self, run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
        def timed(handle: asyncio.Handle) -> None:
            began = thread_time()
            run(handle)
            self._longest = max(self._longest, thread_time() - began)
        return timed

    def case(self, random: Random, values: Sequence[Any]) -> Case:
        """A request: {method, url, headers, body}; to one that runs in turn belongs the reading of its answer."""
        endpoint = random.choice(self._endpoints)
        method = random.choice(("GET", "POST", "HEAD", "PUT", "OPTIONS")) if random.random() < 0.06 else endpoint.method
        path = random.choice(PATHS) if random.random() < 0.05 else endpoint.path
        url = f"{path}{'' if random.random() < 0.8 else '?' + random.choice(QUERIES)}"
        return {"method": method, "url": url.replace("x1", random.choice(("x1", "a", "0"))), "headers": self._headers(
            random), "body": self._body(endpoint, random, values).decode("latin1")}

    def trial(self, case: Case) -> None:
        allowed = self._is_allowed(dict(map(tuple, case["headers"])))
        former, sys.stderr = sys.stderr, self._stderr
        self._longest = 0.0
        try:
            answer = self._asked(case["method"], case["url"], case["headers"], case["body"].encode("latin1"))
            self._check(case, answer, allowed)
            if answer.status == 200 and case["method"] == "POST" and allowed:
                self._listen(case, answer)
        finally:
            sys.stderr = former
        self._quiet()
        if self._longest > MAX_SECONDS:
            raise BrokenError(f"All others waited {self._longest:.2f} s for {_place(case)}")

    def close(self) -> None:
        self._alive.cancel()  # with it end the threads that answered
        self._loop.run_until_complete(asyncio.sleep(0.1))

    def check_all(self) -> None:
        """The page still answers, and little has grown."""
        answer = self._asked("GET", "/", [["Host", PAGE]], b"")
        body = {"data": CALLED["generate"], "session_hash": "last"}
        run = self._asked("POST", "/gradio_api/call/generate", [
            ["Host", PAGE], ["Content-Type", "application/json"]], json.dumps(body).encode())
        event = json.loads(run.body)["event_id"]
        reply = self._asked("GET", f"/gradio_api/call/generate/{event}", [["Host", PAGE]], b"", 60)
        if answer.status != 200 or b'"state": "done"' not in reply.body:
            raise BrokenError(f"After all that: {answer.status}, {reply.body[-300:]!r}")
        if (grown := resident_mib() - self._size) > MAX_GROWN_MIB:
            raise BrokenError(f"The server has grown by {grown:.0f} MiB.")
        print(f"The server has grown by {grown:.0f} MiB.", file=sys.stderr)

    def _described(self, path: str) -> Any:
        return json.loads(self._asked("GET", f"/{path}", [["Host", PAGE]], b"").body)

    def _asked(self, method: str, url: str, headers: list[list[str]], body: bytes, seconds: float = 20) -> Answer:
        if method != "POST" and ("heartbeat" in url or "queue/data" in url or "/call/" in url) and seconds == 20:
            seconds = STREAM_SECONDS
        return self._loop.run_until_complete(ask(self._app, method, url, [(name, value) for name, value in headers],
                                                 body, seconds))

    def _headers(self, random: Random) -> list[list[str]]:
        headers = [["Host", PAGE if random.random() < 0.9 else random.choice(HOSTS)]]
        if random.random() < 0.25:
            headers.append(["Origin", f"http://{PAGE}" if random.random() < 0.6 else random.choice(ORIGINS)])
        if random.random() < 0.1:
            headers.append(["Sec-Fetch-Site", random.choice(("same-origin", "cross-site", "same-site", "none", "x"))])
        if random.random() < 0.05:
            headers.append(["X-Forwarded-Host", random.choice((PAGE, "evil.example", "\x80"))])
        if random.random() < 0.03:
            headers.append(["Cookie", random.choice(("access-token=x", "=;=;", "\x80", "a" * 3000))])
        headers.append(["Content-Type", "application/json" if random.random() < 0.92 else random.choice(KINDS)])
        if random.random() < 0.03:
            headers.append(["Content-Length", random.choice(("0", "-1", "9" * 20, "x", "12"))])
        return headers

    def _body(self, endpoint: Endpoint, random: Random, values: Sequence[Any]) -> bytes:
        sound = copy.deepcopy(endpoint.body) or {"data": []}
        name = str(sound.get("fn_name", ""))
        if name == "open_trace":
            data = self._sound if random.random() < 0.2 else hostile(random, values)
            sound["data"] = {"name": "run.jsonl", "data": base64.b64encode(data).decode()}
        elif name:
            sound["data"] = json.loads(json.dumps(SOUND.get(name, {})).replace("welcome", random.choice(RUNS)))
        elif (called := endpoint.path.rsplit("/", 1)[-1]) in CALLED:
            sound["data"] = copy.deepcopy(CALLED[called])
        sound["session_hash"] = f"attack{random.randrange(50)}"
        for _ in range(random.choice((0, 1, 1, 2))):
            part = random.choice(("data", "data", "data", None)) if "data" in sound else None
            if part and isinstance(sound, dict):
                sound[part] = bent(sound[part], random, values)
            else:
                sound = bent(sound, random, values)
            if not isinstance(sound, dict):
                break
        if random.random() < 0.02:
            return random.choice(COSTLY)
        if random.random() < 0.02:
            return random.choice((b"", b"{", b"[]", b"null", b'"', b"[" * 3000, b"9" * 5000, b'{"x":' * 2000, b"\xff"))
        return json.dumps(sound, ensure_ascii=random.random() < 0.9).encode("utf8", "surrogatepass")

    def _is_allowed(self, headers: dict[str, str]) -> bool:
        """Whether the page itself, or a program, may have asked so."""
        return (headers["Host"] == PAGE and headers.get("Origin", f"http://{PAGE}") == f"http://{PAGE}"
                and headers.get("Sec-Fetch-Site", "same-origin") == "same-origin")

    def _check(self, case: Case, answer: Answer, allowed: bool) -> None:
        status, reply = answer.status, answer.body
        stream = case["method"] == "GET" and not status
        if "/run/" in case["url"] and status == 500 and answer.raised is None:  # Gradio's way to say a sentence
            return _check_error(json.loads(reply))
        if isinstance(answer.raised, Exception) or status >= 500 and status != 503 or not (status or stream):
            raise BrokenError(f"Status {status} of {_place(case)}: {answer.raised!r}, {reply[:200]!r}")
        safe = case["method"] in ("GET", "HEAD") and dict(map(tuple, case["headers"])).get("Sec-Fetch-Site") == "none"
        if not allowed and not safe and status != 403:
            raise BrokenError(f"Status {status} for a stranger of {_place(case)}")
        if any(name.startswith("access-control") for name in answer.headers):
            raise BrokenError("Something is granted to another website")
        if 400 <= status < 500 and case["method"] != "HEAD":
            _check_refusal(reply)
        if status == 200 and "component_server" in case["url"] and case["method"] == "POST":
            value = json.loads(reply)
            if isinstance(value, dict) and isinstance(value.get("error"), str):
                _check_error(value)
                if "its log has the details" in value["error"]:
                    raise BrokenError(f"An error that nobody foresaw in {_place(case)}")

    def _listen(self, case: Case, answer: Answer) -> None:
        """What came of a call that runs in turn."""
        path = case["url"].split("?")[0]
        if "/call/" in path:
            event = json.loads(answer.body)["event_id"]
            reply = self._asked("GET", f"{path.rstrip('/')}/{event}", [["Host", PAGE]], b"").body.decode()
            for line in reply.split("\n\n"):
                if line.startswith("event: error"):
                    _check_error(json.loads(line.partition("data: ")[2]))

    def _quiet(self) -> None:
        reply = self._stderr.getvalue()
        self._stderr.seek(0)
        self._stderr.truncate()
        logged = self._complaints.taken()
        if logged:
            raise BrokenError(f"It was logged: {logged[0][:300]}")
        if "Traceback" in reply and not reply.strip().splitlines()[-1].startswith("gradio.exceptions.Error: "):
            raise BrokenError(f"A traceback: {reply.strip()[-300:]}")


def _place(case: Case) -> str:
    name = re.search(r'"fn_name": "(\w+)"', case["body"])
    return f"{case['method']} {case['url'].split('?')[0][:60]} {name[1] if name else ''}".strip()


def _check_refusal(body: bytes) -> None:
    """A sentence, or the list of what is wrong with each field, as FastAPI gives it."""
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, TypeError, KeyError):
        detail = body.decode("utf8", "replace").strip()
    reply = isinstance(detail, list) or detail in GRADIOS or (isinstance(detail, str) and SENTENCE.fullmatch(detail))
    if not reply:
        raise BrokenError(f"Refused without a sentence: {detail[:200]!r}")


def _check_error(reply: Any) -> None:
    """An error of Gradio's, or an object that holds one."""
    text = reply.get("error") if isinstance(reply, dict) else reply
    if not isinstance(text, str) or not SENTENCE.fullmatch(text):
        raise BrokenError(f"An error without a sentence: {str(text)[:200]!r}")


GRADIOS: frozenset[str] = frozenset({"Not Found", "Method Not Allowed", "Not authenticated", "Forbidden"})
QUERIES = ("session_hash=x", "x=%00", "attempt=1", "all_endpoints=true", "all_endpoints=x", "__theme=dark", "logs=x",
           "session_hash=" + "x" * 5000, "&&==", "%ff=%fe", "deep_link=x", "view=api")


def resident_mib() -> float:
    """Memory of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20
