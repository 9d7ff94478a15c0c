"""Races, what-ifs, examinations and reports, as the page receives them."""

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from engine.decoding.budget_policy import MAX_AUTO_NODES
from engine.errors import RequestError
from engine.lab.machines import FLOOR, machine_curve
from engine.lab.replay import Gain, WhatIf
from engine.lab.settings import Setting
from engine.requests.admission import Admission
from engine.trace import Piece, Trace, load
from explorer.jobs import Job, Jobs
from explorer.lab.acceptance import run_view
from explorer.lab.forms import race_plan_from
from explorer.lab.lab import Lab
from explorer.lab.prediction import gain_figure, machine_prediction, node_costs, predicted_curves
from explorer.lab.race import parts
from explorer.recordings import NoInstruments
from explorer.rig import CurrentRig
from tests.explorer.scripted import CODE, CURVE, PASSES_MS, STORY, ScriptedSource, scripted_trace
from tests.explorer.scripted_instruments import ScriptedInstruments
from tests.explorer.scripted_lab import FORM, JsonLab, lab_at, measure, measured_lab, poll_job, saved_file, wait_for_job
from tests.running import until

RACE = {"prompt": "How many books? ${7*6}", "methods": ["autoregressive", "ddtree", "joint"], "budget": 32,
        "repeats": 3, "temperature": 0, "max_tokens": 512}


def test_a_race_has_one_track_for_each_setting_with_the_whole_text() -> None:
    instruments, turns = ScriptedInstruments(), (("user", "</script>"), ("assistant", "${7*6}"))
    lab = lab_at(instruments=instruments)
    job = wait_for_job(lab, lab.race({**RACE, "auto": ["joint"], "turns": turns}))
    assert (job["state"], job["done"], job["total"], job["share"]) == ("done", 12, 12, 1.0)
    tracks = job["result"]["tracks"]
    assert [track["label"] for track in tracks] == [
        "autoregressive", "ddtree, 32 nodes", "joint, 32 nodes", "joint, auto"]
    for track in tracks:
        assert "".join("".join(track["parts"]).split()) == "".join((STORY + CODE).split())
        assert len(track["parts"]) == len(track["seconds"]) == len(track["tokens"])
        assert track["difference"] == "" and track["failure"] == ""
    assert job["result"]["seconds"] == max(track["seconds"][-1] for track in tracks)
    assert {ask.turns for ask in instruments.laboratory.asked} == {turns}
    asked = {(ask.method, ask.pace, ask.budget) for ask in instruments.laboratory.asked}
    assert {("joint", "fixed", 32), ("joint", "auto", MAX_AUTO_NODES)} < asked


def test_a_character_split_over_two_rounds_belongs_to_the_later_one() -> None:
    tree = "🌳".encode()
    pieces: list[Piece] = ["a", tuple(tree[:3]), tuple(tree[3:]), "a"]
    assert parts(pieces, [2, 4]) == ["a", "🌳a"]
    assert parts(pieces[:2], [1, 2]) == ["a", "\ufffd"]
    assert parts((), ()) == []


@pytest.mark.parametrize(("change", "sentence"), [
    ({"prompt": "  "}, "The prompt is empty"), ({"repeats": 2}, "takes 3 or more"),
    ({"methods": ["autoregressive"]}, "No method besides autoregressive is chosen"),
    ({"budget": "x"}, "The node budget is 'x'"), ({"turns": [["owner", "Hi"]]}, "Turn 1 has the role 'owner'")])
def test_an_invalid_race_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        race_plan_from({**RACE, **change}, ScriptedInstruments())


def test_a_job_waits_its_turn_and_can_leave_the_queue() -> None:
    queue = Admission()
    jobs = Jobs(queue)
    with queue.enter():
        first, second = {"job": jobs.start(lambda job: 1)}, {"job": jobs.start(lambda job: 2)}
        until(lambda: "yours is number 2" in jobs.poll(second)["message"])
        jobs.poll({**second, "stop": True})
        until(lambda: jobs.poll(second)["state"] == "stopped")
    until(lambda: jobs.poll(first)["state"] == "done")
    assert (jobs.poll(first)["result"], jobs.poll(second)["result"]) == (1, None)


def test_a_failing_job_reports_it_and_leaves_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    queue = Admission()
    jobs = Jobs(queue)

    def work(job: Job) -> None:
        raise ZeroDivisionError("hidden detail")
    failing = {"job": jobs.start(work)}
    until(lambda: jobs.poll(failing)["state"] == "error")
    message = jobs.poll(failing)["message"]
    assert "ZeroDivisionError" in message and "hidden detail" not in message
    after = {"job": jobs.start(lambda job: 1)}
    until(lambda: jobs.poll(after)["state"] == "done")
    with pytest.raises(RequestError, match="gone"):
        jobs.poll({"job": "nobody"})


@pytest.fixture(scope="module")
def replayed_lab() -> Any:
    """Provide a lab that has replayed its run."""
    lab = lab_at()
    assert lab.curves({"what_if": "r"})["cost"] is None
    assert wait_for_job(lab, lab.what_if({"run": "r"}))["result"]["what_if"] == "r"
    return lab


@pytest.fixture
def forecast(replayed_lab: Any) -> WhatIf:
    """Provide the prediction for the lab's run."""
    what_if: WhatIf | None = replayed_lab.lab.forecast("r")
    assert what_if is not None
    return what_if


@pytest.mark.slow
def test_the_cost_of_a_row_crosses_its_gain_at_the_best_budget(replayed_lab: Any, forecast: WhatIf) -> None:
    answer = replayed_lab.curves({"what_if": "r", "line": "joint"})
    assert answer["curves"]["predicted"]["lines"] == ["ddtree", "joint"]
    assert "joint" in answer["cost"]["gain"]["summary"]
    gain = Gain(Setting("joint"), (0.9,) * 200, tuple(0.8**n for n in range(1, 201)))
    costs, best = node_costs(forecast, gain, np.asarray(gain.realised))
    assert gain.realised[best - 1] > costs[best - 1] and gain.realised[best] < costs[best]
    assert f"best: {best} nodes, predicted" in gain_figure(forecast, gain)["layout"]["annotations"][0]["text"]


@pytest.mark.slow
def test_predicted_speeds_are_multiples_of_the_plain_speed_beside_them(forecast: WhatIf) -> None:
    costs = forecast.cost
    assert costs is not None
    speeds = [[point.speed.median for point in predicted_curves(forecast, "joint", plain)[1] if point.speed]
              for plain in (0.0, 75.0)]
    assert speeds[0] and np.allclose(np.asarray(speeds[1]) / 75, np.asarray(speeds[0]) * costs.plain_ms / 1e3)
    view, points = predicted_curves(forecast, "joint", 75.0, "It was busy.")
    assert view["withheld"] == "It was busy." and points and not any(point.speed for point in points)


@pytest.mark.slow
def test_predictions_are_for_one_method_and_equal_work_has_equal_speed(forecast: WhatIf) -> None:
    first = forecast.forecasts_for(Setting("ddtree").curve)[1]
    twins = tuple(replace(first, setting=Setting("ddtree", budget), predicted_ms=ms)
                  for budget, ms in ((8, 10.0), (32, 14.0), (128, 11.0)))
    changed = replace(forecast, forecasts=(*twins, *forecast.forecasts_for(Setting("joint").curve)))
    _, points = predicted_curves(changed, "ddtree")
    assert {point.setting.curve_label for point in points} == {"ddtree"} and len(points) == 3
    assert {point.speed and point.speed.median for point in points} == {1e3 * first.tokens / 11.0}
    assert predicted_curves(changed, "nobody")[0]["line"] in ("ddtree", "joint")
    assert predicted_curves(None, "ddtree") == ({"lines": [], "line": "", "withheld": ""}, [])


@pytest.mark.slow
def test_nodes_that_were_never_kept_are_drawn_at_the_bottom(forecast: WhatIf) -> None:
    kept = Gain(Setting("joint"), (0.9,) * 64, (*(0.5,) * 30, *(0.0,) * 34))
    line = next(line for line in gain_figure(forecast, kept)["data"] if line["name"] == "how often it was kept")
    never = [value for (value,) in line["customdata"] if value == 0]
    assert never and line["y"][-1] == min(line["y"]) > 0 and None not in line["y"]


@pytest.mark.slow
def test_no_best_budget_is_predicted_from_costs_that_do_not_rise() -> None:
    instruments = ScriptedInstruments()
    passes = (4.0, 4.0, 40.0, *PASSES_MS[3:])  # five rows cost more than nine
    costs = replace(CURVE, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes)
    instruments.cost = costs
    lab = lab_at(instruments=instruments)
    wait_for_job(lab, lab.what_if({"run": "r"}))
    answer = lab.curves({"what_if": "r", "line": "joint"})
    curves, gain = answer["curves"], answer["cost"]["gain"]
    withheld = curves["predicted"]["withheld"]
    assert "a pass over 5 rows took 40.0 ms" in withheld
    assert not gain["layout"].get("annotations") and withheld in gain["summary"]
    assert "what its row costs" not in {trace["name"] for trace in gain["data"]}
    assert {trace["yaxis"] for trace in curves["figure"]["data"] if trace.get("meta") == "predicted"} == {"y"}


def test_the_doctor_reports_progress_lists_the_worst_first_and_can_be_cancelled() -> None:
    instruments = ScriptedInstruments()
    lab = lab_at(instruments=instruments)
    findings = wait_for_job(lab, lab.doctor({}))["result"]["findings"]
    assert [finding["status"] for finding in findings] == ["wrong", "fine"]
    instruments.doctor_seconds = 1.0
    begun = lab.doctor({})
    until(lambda: (poll_job(lab, begun)["share"] or 0) > 0.1)
    assert poll_job(lab, begun)["message"].startswith("Step ")
    poll_job(lab, begun, stop=True)
    assert (wait_for_job(lab, begun)["state"], wait_for_job(lab, begun)["result"]) == ("stopped", None)


@pytest.mark.slow
def test_without_a_rig_the_lab_says_why_and_shows_earlier_results(tmp_path: Path) -> None:
    lab = measured_lab(tmp_path)
    instruments = NoInstruments(ScriptedSource(), "The rig has no weights.")
    closed = JsonLab(Lab(CurrentRig(instruments), lambda run: scripted_trace("joint", 8), Admission(),
                           tmp_path / "results.sqlite"))
    given = closed.setup()
    assert given["reason"] == "The rig has no weights." and not given["server"]
    assert closed.curves({})["table"]["best"] == lab.curves({})["table"]["best"]
    with pytest.raises(RequestError, match="The rig has no weights"):
        closed.start(FORM)


@pytest.mark.slow
def test_a_report_is_complete_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    lab = measured_lab(tmp_path)
    page = saved_file(lab, "html").decode()
    table = lab.curves({})["table"]
    assert f"Fastest here: {table['best']['label']}" in page and "python -m engine sweep" in page
    assert all(row["label"] in page for row in table["rows"]) and "<!--" not in page.split("<script>")[0]
    assert re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", page.split("<script>")[0]) is None
    drawings = json.loads(page.split('id="drawings">')[1].split("</script>")[0])
    assert len(drawings) == 4 and drawings[0]["summary"].endswith(f"{table['best']['tau']['median']:.2f}.")

    settings = pandas.read_csv(io.BytesIO(saved_file(lab, "csv")))
    fastest = settings.loc[settings["tokens_per_second"].idxmax()]
    assert bool(fastest["recommended"]) and settings["recommended"].sum() == 1
    assert len(pandas.read_csv(io.BytesIO(saved_file(lab, "runs")))) == lab.progress({})["total"]
    with pytest.raises(RequestError, match="'pdf'"):
        lab.report({"sweep": None, "kind": "pdf"})


def test_names_from_outside_are_escaped_in_the_page(tmp_path: Path) -> None:
    lab = lab_at(tmp_path)
    data = base64.b64encode(b'{"prompt": "{{ 7*6 }} </script><img src=x>"}').decode()
    chosen = lab.prompts({"name": "{{ 7*6 }}<img src=x>.jsonl", "data": data})["chosen"]
    measure(lab, {**FORM, "set": chosen})
    page = saved_file(lab, "html").decode()
    assert "<img src=x>" not in page and "{{ 7*6 }}&lt;img src=x&gt;.jsonl" in page


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load(Path("assets/traces/arithmetic.jsonl.gz"))


def test_every_figure_of_a_run_has_intervals_and_a_summary(trace: Trace) -> None:
    view = run_view(trace)
    for figure in (view["lengths"], view["rows"], view["nodes"], view["trees"]):
        assert figure and all("array" in series["error_y"] for series in figure["data"])
    assert {"misses", "nodes", "branching", "omissions"} <= set(view["words"])


def test_predicted_speeds_are_labelled_if_nothing_was_measured(trace: Trace) -> None:
    view = machine_prediction(trace, None, "qwen3-8b", "B200")
    elsewhere = view["elsewhere"]
    assert elsewhere and all("predicted" in series["name"] for series in elsewhere["data"])
    assert "predicted" in elsewhere["layout"]["yaxis"]["title"]["text"]
    floor = machine_curve("qwen3-8b", "B200", FLOOR)
    kept = 52 / 11  # nodes of 16, in the mean round
    assert elsewhere["data"][0]["y"][-1] == pytest.approx((1 + kept) * floor.plain_ms / floor.round_ms(17, 16, 1))
    assert view["cost_on"] == "B200, predicted: published loop"


def test_costs_measured_here_replace_predicted_ones(trace: Trace) -> None:
    here = replace(machine_curve("qwen3-4b", "L4", FLOOR), hardware="this processor")
    view = machine_prediction(trace, here, "qwen3-coder-30b-a3b", "L4")
    assert view["cost_on"] == "this processor" and view["elsewhere"] is None and "24 GB" in view["too_large"]
    assert [row.engine for row in view["flags"]] == ["vLLM", "SGLang", "llama.cpp", "Canopy"]
    passes = (here.verify_ms[0], 9 * here.verify_ms[-1], *here.verify_ms[2:])
    disordered = replace(here, verify_ms=passes, verify_low_ms=passes, verify_high_ms=passes)
    assert disordered.unusable_reason
    assert machine_prediction(trace, disordered, "qwen3-8b", "H200")["cost_on"] != "this processor"


def test_a_run_without_drafts_shows_a_sentence() -> None:
    plain = load(Path("assets/traces/plain.jsonl.gz"))
    view = run_view(plain)
    assert (view["rows"], view["nodes"], view["trees"]) == (None, None, None) and "lengths" not in view
    assert view["words"]["omissions"] == ["No round drafted anything, so there is nothing to take apart."]
    assert machine_prediction(plain, None, "", "")["flags"] == []
