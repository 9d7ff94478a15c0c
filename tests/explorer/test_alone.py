"""The page's half runs without torch, and starts nothing that speaks to others."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import app
from engine.errors import RigError
from explorer.lessons import Library
from explorer.replay import Recordings

BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers"}:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
import explorer.page, explorer.service, explorer.share, explorer.replay, app
from explorer.lessons import Library
from explorer.replay import Recordings
built = explorer.page.build(Recordings(Library([]), "No model."), Library([]))
print(sorted(name for name in built.get_api_info()["named_endpoints"]))
"""


def test_the_explorer_imports_and_builds_without_torch() -> None:
    made = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False, timeout=120)
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip().endswith("['/generate', '/lessons', '/replay', '/trace']")


def test_flags() -> None:
    wanted = app.flags().parse_args([])
    assert (wanted.host, wanted.port, wanted.rig, wanted.auth, wanted.trace) == ("127.0.0.1", 7860, "demo", None, None)
    assert app.flags().parse_args(["--auth", "ada:pass:word"]).auth == ("ada", "pass:word")


@pytest.mark.parametrize("arguments", [["--port", "many"], ["--auth", "ada"], ["--colour"]])
def test_bad_flags_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app.flags().parse_args(arguments)
    assert "error" in capsys.readouterr().err


def test_without_a_rig_recordings_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(name: str) -> None:
        raise RigError(f"The rig {name!r} has no weights.")

    monkeypatch.setitem(sys.modules, "engine.runtime.live", SimpleNamespace(serve=serve))
    made = app.source("no-such-rig", Library([]))
    assert isinstance(made, Recordings) and made.reason == "The rig 'no-such-rig' has no weights."


def test_a_failure_that_nobody_foresaw_is_a_sentence_and_stands_in_the_log(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    broken, reasons = {"own", "demo"}, []
    demo = SimpleNamespace(instead=lambda reason: reasons.append(reason) or "the demo rig")

    def serve(name: str) -> Any:
        if name in broken:
            raise ZeroDivisionError("hidden")
        return demo

    monkeypatch.setitem(sys.modules, "engine.runtime.live", SimpleNamespace(serve=serve))
    said = "The rig 'own' could not be loaded: an internal error (ZeroDivisionError); the server's log has the details."
    made = app.source("own", Library([]))
    assert isinstance(made, Recordings) and made.reason == said
    assert [each.exc_info[0] for each in caplog.records if each.exc_info] == [ZeroDivisionError] * 2
    broken.remove("demo")
    assert app.source("own", Library([])) == "the demo rig" and reasons == [said]
