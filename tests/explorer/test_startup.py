"""The app's start: its flags, and its first seconds, in which a page answers before Gradio is imported, until the real
page replaces it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Event
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import app
from engine.errors import RequestError
from engine.requests.rig_names import DEFAULT_RIG
from explorer import startup
from explorer.startup import FirstSeconds
from tests.running import completed

SLOW = ("gradio", "pandas", "plotly", "pydantic", "fastapi", "networkx", "torch", "transformers")
FIRST_SECONDS = 1.5  # of processor time until the first page; about 0.6 on a developer's machine

FIRST, REAL = """
import sys, time
import app, explorer.startup
args = app.flags().parse_args([])
recordings = app.library(None, "demo")
page = app.first_page(args, recordings)
app.keep_offline(args.rig, True)
assert recordings.first().trace.header.prompt[:40] in page
print(time.process_time(), *[name for name in sys.argv[1:] if name in sys.modules])
""", """
sys.modules.update(torch=None, transformers=None)  # from here on nobody can import them
import explorer.page
from explorer.rig import CurrentRig
nothing = app.Library([])
built, _ = explorer.page.build(CurrentRig(app.recorded_rig(nothing, "No model.")), nothing)
print(*sorted(built.get_api_info()["named_endpoints"]))
"""


@pytest.mark.slow
def test_the_first_page_is_served_before_slow_imports_and_the_real_one_is_built_without_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST + REAL, *SLOW], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    first, endpoints = done.stdout.splitlines()
    seconds, *imported = first.split()
    assert imported == [] and float(seconds) < FIRST_SECONDS
    assert endpoints == "/generate /lessons /recordings /trace"


def test_flags_are_parsed_and_invalid_ones_refused() -> None:
    args = app.flags().parse_args([])
    assert (args.host, args.port, args.rig, args.auth, args.trace) == (
        "127.0.0.1", 7860, DEFAULT_RIG, None, None)
    assert app.flags().parse_args(["--auth", "ada:pass:word"]).auth == ("ada", "pass:word")
    for typed, path in (("/canopy", "/canopy"), ("team/canopy/", "/team/canopy"), ("/", "")):
        assert app.flags().parse_args(["--root-path", typed]).root_path == path


class SlowPage:
    """Serve a page that answers "first" until another one may be built."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.may_build, self.begun, self.ended, self.gave_up = Event(), Event(), Event(), Event()
        self._failure = failure
        first = Starlette(routes=[Route("/", lambda _: PlainTextResponse("first"))])
        self.app = FirstSeconds(first, self._build, self.gave_up.set)

    def _build(self) -> Starlette:
        assert self.may_build.wait(20)
        if self._failure:
            raise self._failure

        @asynccontextmanager
        async def lives(_: Starlette) -> Any:
            self.begun.set()
            yield
            self.ended.set()
        routes = [Route(path, lambda asked: PlainTextResponse(f"real {asked.url.path}")) for path in ("/", "/config")]
        return Starlette(routes=routes, lifespan=lives)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client, between the server's startup and shutdown."""
        heard, sent = asyncio.Queue[dict[str, Any]](), asyncio.Queue[Any]()
        life = asyncio.create_task(self.app({"type": "lifespan"}, heard.get, sent.put))
        await heard.put({"type": "lifespan.startup"})
        assert (await sent.get())["type"] == "lifespan.startup.complete"
        async with httpx.AsyncClient(
                transport=httpx.ASGITransport(self.app), base_url="http://127.0.0.1:7860") as client:
            yield client
        await heard.put({"type": "lifespan.shutdown"})
        await asyncio.sleep(0.1)
        self.may_build.set()
        await life


def test_the_real_page_replaces_the_first_and_answers_waiting_requests() -> None:
    building = SlowPage()

    async def act() -> list[str]:
        async with building.serve() as client:
            first = (await client.get("/")).text
            waiting = asyncio.create_task(client.get("/config"))
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(waiting), 0.1)
            assert not waiting.done() and not building.begun.is_set()
            building.may_build.set()
            return [first, (await waiting).text, (await client.get("/")).text]
    assert completed(act()) == ["first", "real /config", "real /"]
    assert building.begun.is_set() and building.ended.is_set(), "the real page starts and ends with the server"


def test_before_a_login_neither_recordings_nor_paths_are_shown() -> None:
    args = app.flags().parse_args(["--rig", "/weights-of-ada/target::ngram", "--auth", "ada:lovelace"])
    recordings = app.library(None, "demo")
    page, first = app.first_page(args, recordings), recordings.first()
    assert "weights-of-ada" not in page and first and first.trace.header.prompt[:40] not in page


def test_a_page_that_cannot_be_built_ends_the_server_with_a_reason() -> None:
    building = SlowPage(RequestError("The presets are broken."))

    async def act() -> httpx.Response:
        async with building.serve() as client:
            waiting = asyncio.create_task(client.get("/config"))
            building.may_build.set()
            return await waiting
    answer = completed(act())
    assert answer.status_code == 503
    assert building.gave_up.is_set() and str(building.app.failure) == "The presets are broken."


def test_the_number_of_waiting_requests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "MAX_WAITING_REQUESTS", 2)

    async def act() -> list[httpx.Response]:
        building = SlowPage()
        async with building.serve() as client:
            asked = [asyncio.create_task(client.get("/config")) for _ in range(3)]
            refused, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED, timeout=20)
            building.may_build.set()
            return [*(done.result() for done in refused), *await asyncio.gather(*asked)]
    refused, *answers = completed(act())
    assert refused.status_code == 503 and "Retry-After" in refused.headers
    assert sorted(answer.status_code for answer in answers) == [200, 200, 503]
