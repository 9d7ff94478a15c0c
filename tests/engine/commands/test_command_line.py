"""The verbs as typed on a command line: once in a new process, otherwise in this one, which has torch loaded."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine import open_rig
from engine.commands import bench, check, generate, record, whatif
from engine.commands.program import main, verb_parser
from engine.commands.whatif import encoded, table
from engine.lab.against_plain import NEAR_TIE
from engine.lab.reading import WrittenText
from engine.lab.replay import Forecast, WhatIf
from engine.lab.settings import Setting
from engine.records import Sampling
from engine.trace import load
from tests.engine.lab.scripted import CURVE

DEMO = ("--rig", "demo")
MATH = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"
Typed = Callable[..., tuple[str, Any]]
pytestmark = pytest.mark.usefixtures("quick_curves")


@pytest.fixture(scope="module", autouse=True)
def _load_rigs_once() -> Iterator[None]:
    """Load each rig once and keep the measured costs."""
    opened = cache(open_rig)
    with pytest.MonkeyPatch.context() as patch:
        for verb in (bench, check, generate, record, whatif):
            patch.setattr(verb, "open_rig", opened)
        yield


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Provide a function that runs a command line and returns its text and its --json result."""
    def run(verb: str, *words: str) -> tuple[str, Any]:
        assert main([verb, *words, "--json"]) == 0
        text, line = capsys.readouterr().out.rstrip().rsplit("\n", 1)
        return text, json.loads(line)
    return run


def test_generate_reads_stdin_prints_json_last_and_writes_the_trace(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl.gz"
    words = (*DEMO, "--method", "joint", "--budget", "32", "--prompt", "-", "--json", "--trace", str(file))
    done = subprocess.run([sys.executable, "-m", "engine", "generate", *words], input=MATH, capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().split("\n")[-1])
    assert result["text"].endswith("Answer: 67") and result["end"] == "stop"
    assert sum(result["acceptance_lengths"]) == len(result["token_ids"])
    assert result["tau"] == round(len(result["token_ids"]) / result["rounds"], 4)
    assert result["tokens_per_second"] > 0
    assert len(load(file).entries) == result["rounds"]


def test_bench_compares_budgets_auto_plain_and_the_published_loop(typed: Typed) -> None:
    text, result = typed("bench", *DEMO, "--methods", "autoregressive", "ddtree", "published", "--budgets", "16",
                         "auto", "--prompts", "assets/prompts/bench.jsonl", "--limit", "1", "--max-tokens", "24",
                         "--repeats", "1")
    plain, tree, auto, published = result["points"]
    assert [(row["method"], row["budget"]) for row in result["points"]] == [
        ("autoregressive", 0), ("ddtree", 16), ("ddtree", "auto"), ("published", 16)]
    assert plain["tau"] == 1.0 and auto["tokens"] == tree["tokens"] == published["tokens"] == plain["tokens"]
    assert tree["times_plain"] == pytest.approx(tree["tokens_per_second"] / plain["tokens_per_second"], abs=0.001)
    assert set(tree["ms"]) == {"draft", "build", "pack", "verify", "accept", "keep", "other"}
    assert 0 < tree["overhead_share"] < 1 and text.splitlines()[-1].startswith("published")


@pytest.mark.parametrize(("words", "texts", "expected"), [
    (("--limit", "1", "--budgets", "7"), 8, {"budgets": [7]}),
    (("--limit", "2", "--budgets", "7", "auto", "--concurrency", "3"), 32, {"budgets": [7, "auto"]}),
    (("--limit", "2", "--budgets", "7", "--concurrency", "1", "3"), 32, {"concurrency": [1, 3]}),
    (("--limit", "2", "--budgets", "7", "--temperature", "0.8"), 14, {"not_compared": ["nanogpt"]})])
def test_check_compares_texts(typed: Typed, words: tuple[str, ...], texts: int, expected: dict[str, object]) -> None:
    _, result = typed("check", *DEMO, "--prompts", "assets/prompts/check.jsonl", "--max-tokens", "8", *words)
    assert result["equal"] == result["texts"] == texts and result["differences"] == []
    assert expected.items() <= result.items()
    assert ("nanogpt" in [method for method, _ in result["methods"]]) != ("not_compared" in expected)


ONE_DRAFTER = ("--rig", "assets/demo/target::ngram", "--dtype", "float32", "--budgets", "4", "--max-tokens", "6")


def test_without_methods_a_verb_uses_those_that_the_rig_serves(typed: Typed, tmp_path: Path) -> None:
    checked = typed("check", *ONE_DRAFTER, "--prompts", "check", "--limit", "1")[1]
    assert checked["equal"] == checked["texts"] == 4
    assert {method for method, _ in checked["methods"]} == {"dflash", "ddtree", "expand", "nanogpt"}
    measured = typed("bench", *ONE_DRAFTER, "--limit", "1", "--repeats", "1")[1]
    assert [row["method"] for row in measured["points"]] == ["autoregressive", "dflash", "ddtree"]
    swept = typed("sweep", *ONE_DRAFTER, "--limit", "1", "--repeats", "1", "--out", str(tmp_path / "results"))[1]
    assert {row["method"] for row in swept["rows"]} == {"autoregressive", "dflash", "ddtree"}


@pytest.mark.parametrize("words", [
    ("bench", *ONE_DRAFTER, "--methods", "ddtree", "joint"), ("sweep", *ONE_DRAFTER, "--methods", "joint"),
    ("whatif", *ONE_DRAFTER, "--prompt", "Hi", "--without-cost", "--methods", "joint"),
    ("generate", *ONE_DRAFTER[:4], "--method", "joint", "--prompt", "Hi"), ("record", *ONE_DRAFTER[:4])])
def test_an_unsupported_method_is_refused_with_the_supported_ones(
        words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    sentence = capsys.readouterr().err.strip().rsplit("\n", 1)[-1]
    assert "joint" in sentence and "ddtree, expand, nanogpt" in sentence


def test_a_check_gives_the_cause_of_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, parser = open_rig("demo", "float32"), verb_parser("check")
    plain, other = WrittenText((5, 6, 7), (0.1, 0.0004, 0.1), 8), WrittenText((5, 6, 9), (0.1, 0.0005, 0.1), 8)
    monkeypatch.setattr(check, "texts", lambda _rig, asks, *_: [
        plain if ask.method == "autoregressive" else other for ask in asks])
    args = parser.parse_args(["--rig", "demo", "--prompts", "bench", "--budgets", "16"])
    differences = list(check.differences(rig, ["Count."], args, 1))
    assert len(differences) == len(check.lossless_points(rig.methods)) and {row["place"] for row in differences} == {2}
    why = str(differences[0]["why"])
    assert "1.0005" in why and NEAR_TIE in why and "float32" in why


def test_an_adaptive_run_can_be_forecast_from_its_trace(typed: Typed, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl.gz"
    answer = typed("generate", *DEMO, "--budget", "auto", "--prompt", MATH, "--max-tokens", "40", "--dtype", "float32",
                   "--trace", str(file))[1]
    request = load(file).header.request
    assert (request.pace, request.budget) == ("auto", 256) and len(answer["rows"]) == answer["rounds"]
    text, result = typed("whatif", *DEMO, "--trace", str(file), "--budgets", "4", "16", "--without-cost")
    taus = {(row["method"], row["split"], row["budget"]): row["tau"] for row in result["forecasts"]}
    assert result["dtype"] == "float32" and taus["autoregressive", "total", 0] == 1.0
    assert taus["ddtree", "total", 16] >= taus["ddtree", "total", 4] > 1
    assert "merged each" in text


def test_speeds_are_printed_only_for_a_consistent_cost_curve() -> None:
    forecast = Forecast(Setting("ddtree", 8), (3,), (9,), predicted_ms=12.0)
    sound = WhatIf("", "rig", "machine", "float32", Sampling(), 1, 3, 0, (forecast,), (), CURVE, 0.0)
    passes = (9.0, *CURVE.verify_ms[1:])
    doubtful = replace(sound, cost=replace(CURVE, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes))
    assert "250" in table(sound)
    assert sound.best is forecast and not sound.withheld and doubtful.best is None
    assert doubtful.withheld in table(doubtful) and encoded(doubtful)["withheld"] == doubtful.withheld
    assert "250" not in table(doubtful)


def test_lessons_of_a_prompt_are_interleaved_with_plain_decoding(
        typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "CURVE_BUDGETS", ())
    (tmp_path / "lessons.json").write_text(json.dumps([
        {"name": name, "title": "T", "note": "N.", "prompt": prompt, "method": method, "budget": 8, "max_tokens": 12}
        for name, prompt, method in (("tree", MATH, "ddtree"), ("plain", MATH, "autoregressive"),
                                     ("other", f"{MATH} Why?", "ddtree"))]))
    typed("record", *DEMO, "--lessons", str(tmp_path / "lessons.json"), "--out", str(tmp_path))
    tree, plain, other = (load(tmp_path / f"{name}.jsonl.gz") for name in ("tree", "plain", "other"))
    assert [trace.header.interleaved for trace in (tree, plain, other)] == [True, True, False]
    assert tree.header.recorded and tree.end.rounds == len(tree.entries) < len(plain.entries)
    for trace in (tree, plain):
        spent = sum(sum(entry.round.seconds.values()) for entry in trace.entries)
        assert trace.end.seconds == trace.entries[-1].elapsed_seconds > spent > 0  # with the time to read the prompt
