"""The verbs of `python -m engine`, run in this process."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.commands import check
from engine.commands.program import verb_named, verb_parser
from engine.commands.whatif import encoded, table
from engine.lab.parting import Text
from engine.lab.whatif import Forecast, WhatIf
from engine.records import Sampling
from engine.serving.rigs import load_rig
from engine.trace import load
from tests.engine.lab.scripted import CURVE

DEMO = ("--rig", "demo")
MATH = "Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?"


def run(*words: str) -> dict[str, object]:
    verb = verb_named(words[0])
    result = verb.run(verb_parser(words[0]).parse_args(words[1:]))
    assert isinstance(verb.summary(result), str)
    read: dict[str, object] = json.loads(json.dumps(result))  # whatever --json prints can be read
    return read


def test_generate_at_its_own_pace_and_what_if_of_its_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.jsonl.gz"
    made = run("generate", *DEMO, "--budget", "auto", "--prompt", MATH, "--max-tokens", "40", "--dtype", "float32",
               "--trace", str(file))
    request = load(file).header.request
    assert (request.pace, request.budget) == ("auto", 256) and len(made["rows"]) == made["rounds"]  # type: ignore[arg-type]
    found = run("whatif", *DEMO, "--trace", str(file), "--budgets", "4", "16", "--without-cost")
    lines = {(each["method"], each["split"], each["budget"]): each for each in found["forecasts"]}  # type: ignore[attr-defined]
    assert found["dtype"] == "float32" and lines["autoregressive", "total", 0]["tau"] == 1.0
    assert lines["ddtree", "total", 16]["tau"] >= lines["ddtree", "total", 4]["tau"] > 1
    assert "merged each" in capsys.readouterr().out


def test_pace_holds_auto_against_fixed_budgets(tmp_path: Path) -> None:
    file = tmp_path / "sums.jsonl"
    file.write_text(json.dumps({"prompt": MATH}) + "\n")
    found = run("pace", *DEMO, "--budgets", "4", "16", "--prompts", str(file), "--max-tokens", "24", "--repeats", "1")
    domain = found["domains"]["sums"]  # type: ignore[index]
    assert domain["best_budget"] in (4, 16) and domain["auto"] > 0
    assert domain["share_of_best"] == pytest.approx(domain["auto"] / max(domain["fixed"].values()), rel=0.01)
    assert found["prediction_error"]["median"] >= 0  # type: ignore[index]


def test_lessons_of_a_prompt_are_timed_in_turns_with_plain_decoding(tmp_path: Path) -> None:
    (tmp_path / "lessons.json").write_text(json.dumps([
        {"name": name, "title": "T", "note": "N.", "prompt": prompt, "method": method, "budget": 8, "max_tokens": 12}
        for name, prompt, method in (("tree", MATH, "ddtree"), ("plain", MATH, "autoregressive"),
                                     ("other", f"{MATH} Why?", "ddtree"))]))
    run("record", *DEMO, "--lessons", str(tmp_path / "lessons.json"), "--out", str(tmp_path))
    tree, plain, other = (load(tmp_path / f"{name}.jsonl.gz") for name in ("tree", "plain", "other"))
    assert [trace.header.in_turns for trace in (tree, plain, other)] == [True, True, False]
    assert tree.header.recorded and tree.end.rounds == len(tree.entries) < len(plain.entries)
    for trace in (tree, plain):
        spent = sum(sum(entry.round.seconds.values()) for entry in trace.entries)
        assert trace.end.seconds == trace.entries[-1].elapsed_seconds > spent > 0  # reading the prompt is in it


def test_a_check_says_why_a_text_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, parser = load_rig("demo", "float32"), verb_parser("check")
    plain, other = Text([5, 6, 7], [0.1, 0.0004, 0.1], 8), Text([5, 6, 9], [0.1, 0.0005, 0.1], 8)
    monkeypatch.setattr(check, "texts", lambda _rig, asks, *_: [
        plain if ask.method == "autoregressive" else other for ask in asks])
    choice = parser.parse_args(["--rig", "demo", "--prompts", "bench", "--budgets", "16"])
    found = list(check.differences(rig, ["Count."], choice, 1))
    assert len(found) == len(check.lossless_points()) and {row.place for row in found} == {2}
    assert "0.0005 nats apart: a near-tie, which rounding in float32 may turn" in found[0].why


def test_speeds_are_printed_only_where_the_cost_curve_has_an_order() -> None:
    forecast = Forecast("ddtree", "total", 8, (3,), (9,), predicted_ms=12.0)
    sound = WhatIf("", "rig", "machine", "float32", Sampling(), 1, 3, 0, (forecast,), (), CURVE, 0.0)
    passes = (9.0, *CURVE.verify_ms[1:])
    doubtful = replace(sound, cost=replace(CURVE, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes))
    assert "Fastest, predicted: ddtree total at budget 8." in table(sound) and "250" in table(sound)
    assert sound.best is forecast and not sound.withheld and doubtful.best is None
    assert doubtful.withheld in table(doubtful) and encoded(doubtful)["withheld"] == doubtful.withheld
    assert "Fastest, predicted" not in table(doubtful) and "250" not in table(doubtful)
