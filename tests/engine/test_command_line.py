"""The command lines as a person types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from engine.trace import load

MATH = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=300, check=False)


def test_generate_prints_one_json_object_last_and_writes_the_trace(tmp_path: Path):
    file = tmp_path / "run.jsonl.gz"
    done = run("engine", "generate", "--method", "joint", "--budget", "32", "--prompt", MATH, "--json",
               "--trace", str(file))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().split("\n")[-1])
    assert result["text"].endswith("Answer: 67") and result["end"] == "stop"
    assert sum(result["acceptance_lengths"]) == len(result["token_ids"])
    assert result["tau"] == round(len(result["token_ids"]) / result["rounds"], 4)
    assert result["tokens_per_second"] > 0
    assert len(load(file).entries) == result["rounds"]


def test_a_bad_ask_is_one_sentence_and_exit_status_one():
    done = run("engine", "generate", "--method", "magic", "--prompt", "hi")
    assert done.returncode == 1
    assert done.stderr.strip().split("\n")[-1].startswith("There is no method 'magic'; choose one of")
    assert "Traceback" not in done.stderr


def test_a_trace_that_cannot_be_written_is_one_sentence(tmp_path: Path):
    done = run("engine", "generate", "--budget", "4", "--max-tokens", "4", "--prompt", "hi",
               "--trace", str(tmp_path / "missing" / "run.jsonl"))
    assert done.returncode == 1 and "could not be written" in done.stderr and "Traceback" not in done.stderr


def test_bench_prints_a_table_and_one_json_line():
    done = run("engine.bench", "--methods", "autoregressive", "ddtree", "plain", "--budgets", "16", "--prompts",
               "assets/prompts/bench.jsonl", "--limit", "1", "--max-tokens", "24", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout.strip().split("\n")[-1])["points"]
    found = {point["method"]: point for point in points}
    assert found["autoregressive"]["tau"] == 1.0
    assert found["ddtree"]["tokens"] == found["plain"]["tokens"] == found["autoregressive"]["tokens"]
    assert set(found["ddtree"]["ms"]) == {"draft", "build", "pack", "verify", "accept", "keep", "other"}
    assert 0 < found["ddtree"]["overhead_share"] < 1


def test_check_compares_texts():
    done = run("engine.check", "--prompts", "assets/prompts/check.jsonl", "--limit", "1", "--budgets", "7",
               "--max-tokens", "12", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().split("\n")[-1])
    assert result["equal"] == result["texts"] == 8 and result["differences"] == []


def test_prompt_files_that_are_none(tmp_path: Path):
    for content, said in ((b"", "holds no prompt"), (b"{", "line 1 is not JSON"), (b"\xff\xfe", "is not UTF-8"),
                          (b'{"prompt": 3}', "line 1 has no text"), (b"[1]", "line 1 has no text")):
        file = tmp_path / "prompts.jsonl"
        file.write_bytes(content)
        done = run("engine.check", "--prompts", str(file))
        assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr
