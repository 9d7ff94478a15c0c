"""The page's half runs without torch, and starts nothing that speaks to others."""

import subprocess
import sys

import pytest

import app
from engine.requests.rig_names import DEFAULT_RIG

BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers"}:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
import explorer.page, app
from explorer.recordings import Library, recorded_rig
from explorer.rig import CurrentRig
built = explorer.page.build(CurrentRig(recorded_rig(Library([]), "No model.")), Library([]))
print(sorted(name for name in built.get_api_info()["named_endpoints"]))
"""


@pytest.mark.slow
def test_the_explorer_imports_and_builds_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("['/generate', '/lessons', '/replay', '/trace']")


def test_flags() -> None:
    wanted = app.flags().parse_args([])
    assert (wanted.host, wanted.port, wanted.rig, wanted.auth, wanted.trace) == (
        "127.0.0.1", 7860, DEFAULT_RIG, None, None)
    assert app.flags().parse_args(["--auth", "ada:pass:word"]).auth == ("ada", "pass:word")


@pytest.mark.parametrize("arguments", [["--port", "many"], ["--port", "99999"], ["--auth", "ada"], ["--colour"]])
def test_bad_flags_are_one_sentence(
        arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", *arguments])
    assert app.main() == 2
    sentence = capsys.readouterr().err
    assert arguments[0] in sentence and sentence.endswith("see `app.py --help`.\n") and sentence.count("\n") == 1
