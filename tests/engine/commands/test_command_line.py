"""The command lines as a person types them: once in a new process, else in this one, which has torch already."""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.trace import load

DEMO = ("--rig", "demo")
MATH = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"


@dataclass(frozen=True)
class Done:
    """What a command line left: its exit status and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """``python -m MODULE WORD …`` without the seconds in which a new process imports torch."""

    def typed(module: str, *words: str) -> Done:
        monkeypatch.setattr(sys, "argv", [module, *words])
        with pytest.raises(SystemExit) as left:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        printed = capsys.readouterr()
        return Done(int(left.value.code or 0), printed.out, printed.err)

    return typed


def test_generate_prints_one_json_object_last_and_writes_the_trace(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl.gz"
    words = (*DEMO, "--method", "joint", "--budget", "32", "--prompt", MATH, "--json", "--trace", str(file))
    done = subprocess.run([sys.executable, "-m", "engine", "generate", *words], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().split("\n")[-1])
    assert result["text"].endswith("Answer: 67") and result["end"] == "stop"
    assert sum(result["acceptance_lengths"]) == len(result["token_ids"])
    assert result["tau"] == round(len(result["token_ids"]) / result["rounds"], 4)
    assert result["tokens_per_second"] > 0
    assert len(load(file).entries) == result["rounds"]


def test_a_bad_ask_is_one_sentence_and_exit_status_two(run: Callable[..., Done]) -> None:
    done = run("engine", "generate", "--method", "magic", "--prompt", "hi")
    assert done.returncode == 2
    assert done.stderr.startswith("--method is 'magic'; choose one of") and done.stderr.count("\n") == 1


def test_bench_prints_a_table_and_one_json_line(run: Callable[..., Done]) -> None:
    done = run("engine", "bench", *DEMO, "--methods", "autoregressive", "ddtree", "plain", "--budgets", "16",
               "--prompts", "assets/prompts/bench.jsonl", "--limit", "1", "--max-tokens", "24", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout.strip().split("\n")[-1])["points"]
    found = {point["method"]: point for point in points}
    assert found["autoregressive"]["tau"] == 1.0
    assert found["ddtree"]["tokens"] == found["plain"]["tokens"] == found["autoregressive"]["tokens"]
    assert set(found["ddtree"]["ms"]) == {"draft", "build", "pack", "verify", "accept", "keep", "other"}
    assert 0 < found["ddtree"]["overhead_share"] < 1


@pytest.mark.parametrize(("words", "texts", "said"), [
    (("--limit", "1", "--budgets", "7"), 8, {"budgets": [7]}),
    (("--limit", "2", "--budgets", "7", "auto", "--concurrency", "3"), 32, {"budgets": [7, "auto"]}),
    (("--limit", "2", "--budgets", "7", "--concurrency", "1", "3"), 32, {"concurrency": [1, 3]})])
def test_check_compares_texts(run: Callable[..., Done], words: tuple[str, ...], texts: int, said: object) -> None:
    done = run("engine", "check", *DEMO, "--prompts", "assets/prompts/check.jsonl", "--max-tokens", "12", "--json",
               *words)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().split("\n")[-1])
    assert result["equal"] == result["texts"] == texts and result["differences"] == []
    assert isinstance(said, dict) and said.items() <= result.items()


def test_check_compares_texts_where_the_rule_keeps_the_targets_choices(run: Callable[..., Done]) -> None:
    done = run("engine", "check", *DEMO, "--prompts", "assets/prompts/check.jsonl", "--limit", "2", "--budgets", "7",
               "--max-tokens", "24", "--temperature", "0.8", "--json")
    assert done.returncode == 0, done.stdout
    result = json.loads(done.stdout.strip().split("\n")[-1])
    assert result["equal"] == result["texts"] == 14 and result["not_compared"] == ["nanogpt"]
    assert "nanogpt" not in [method for method, _ in result["methods"]]
    assert "Not compared above temperature 0: nanogpt, exact in distribution" in done.stdout
