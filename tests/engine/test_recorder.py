"""The recorder: rounds come back from the file, the loop is not slowed down, and a bad round stops nothing."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine.recorder
from engine.recorder import LATTICE, SAMPLING, TREE, TRIALS, VERIFICATION, Recorder, RecorderError
from engine.records import DraftTree, Lattice, Request, Round, Sampling, Trials, Verification
from engine.trace import End, Header, Trace, load
from engine.trace.reading import END_FIELDS, HEADER_FIELDS, REQUEST_FIELDS
from tests.engine.helpers import WARM, drafters_of, run
from tests.engine.test_trace import same
from tests.engine.toy import ToyTarget
from tests.running import at_most, until

HOUSE = Path(__file__).parents[2]
SMALL = {"tokens": [7, 3, 4, 5], "parents": [0, 0, 1, 0]}
RIGHT = {**SMALL, "keep": [0], "bonus": 9}


@pytest.mark.parametrize(("names", "record"), [
    (TREE, DraftTree), (LATTICE, Lattice), (TRIALS, Trials), (SAMPLING, Sampling), (VERIFICATION, Verification),
    (REQUEST_FIELDS, Request), (HEADER_FIELDS, Header), (END_FIELDS, End)])
def test_field_names_of_the_file_are_those_of_the_records(names: Iterable[str], record: Any) -> None:
    assert set(names) == {field.name for field in fields(record)}


def rounds_of(method: str, budget: int = 9) -> list[Round]:
    """Return the rounds of a toy run."""
    target = ToyTarget(seed=2)
    return run(Request((1, 2, 3), method=method, budget=budget, max_tokens=20,
                       sampling=WARM), target, drafters_of(method, target))


def parts_of(round_: Round) -> dict[str, Any]:
    """Return a round as the arguments of ``Recorder.round``."""
    def arrays(record: Any) -> dict[str, Any]:
        return dict(vars(record))
    verification = arrays(round_.verification)
    verification["choice_logprobs"] = verification.pop("logprobs")
    trials = round_.acceptance.trials
    return {**arrays(round_.tree), **verification, "keep": round_.acceptance.keep, "bonus": round_.acceptance.bonus,
            "drafts": [arrays(draft) for draft in round_.drafts],
            "candidates": [arrays(tree) for tree in round_.candidates],
            "trials": trials and arrays(trials), "seconds": dict(round_.seconds)}


def recorded(path: Path, *rounds: dict[str, Any], **about: Any) -> Trace:
    """Record these rounds and return the trace that is read from the file."""
    with Recorder(path, **about) as recorder:
        for parts in rounds:
            recorder.round(**parts)
    return load(path)


@pytest.mark.parametrize("method", ["ddtree", "merged", "nanogpt", "autoregressive"])
@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_every_bit_of_a_round_is_read_back(method: str, name: str, tmp_path: Path) -> None:
    rounds = rounds_of(method)
    trace = recorded(tmp_path / name, *map(parts_of, rounds), method=method, prompt_ids=[1, 2, 3])
    assert [entry.round.start for entry in trace.entries] == [round_.start for round_ in rounds]
    assert all(same(entry.round, round_) for entry, round_ in zip(trace.entries, rounds, strict=True))
    assert (trace.end.reason, trace.end.rounds) == ("unknown", len(rounds))


def test_tokens_parents_keep_and_bonus_make_a_round(tmp_path: Path) -> None:
    trace = recorded(
        tmp_path / "run.jsonl.gz", {**SMALL, "keep": [0, 1, 2], "bonus": 9}, {**SMALL, "keep": [0], "bonus": 1},
        prompt="Hi", method="a new one", engine="my loop 0.3")
    first, second = trace.rounds
    assert first.committed.tolist() == [7, 3, 4]
    assert first.verification.choice.tolist() == [3, 4, 9, -1]  # the accepted path; the other choices are unknown
    assert np.isnan(first.verification.entropy).all()
    assert np.isnan(first.tree.logprobs[1:]).all()
    assert first.tree.drafters.tolist() == [0, 1, 1, 1]
    assert (first.start, second.start) == (0, 3)
    header = trace.header
    assert (header.prompt, header.request.method, header.engine) == ("Hi", "a new one", "my loop 0.3")
    assert header.drafters == ("drafter",)
    assert header.recorded == time.strftime("%Y-%m-%d")


def test_a_chain_is_recorded_as_a_tree_and_the_first_needs_its_root(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.jsonl.gz", prompt_ids=[1, 2]) as recorder:
        recorder.chain(drafted=[5], accepted=1, bonus=8)
        recorder.chain(drafted=[5, 6, 7], accepted=2, bonus=8, root=4)
        recorder.chain(drafted=[1], accepted=0, bonus=2)
        recorder.chain(drafted=[], accepted=0, bonus=3)
    rounds = load(tmp_path / "run.jsonl.gz").rounds
    assert [round_.tree.tokens.tolist() for round_ in rounds] == [[4, 5, 6, 7], [8, 1], [2]]
    assert rounds[0].tree.parents.tolist() == [0, 0, 1, 2]
    assert [round_.committed.tolist() for round_ in rounds] == [[4, 5, 6], [8], [2]]
    assert [round_.start for round_ in rounds] == [2, 5, 6] and recorder.refused == 1


def test_node_logprobs_are_summed_and_marginals_become_lattices(tmp_path: Path) -> None:
    draft = {"tokens": [[1, 2], [3, 4]], "logprobs": [[-0.5, -1], [-0.25, -2]]}
    round_ = recorded(tmp_path / "run.jsonl.gz", {**RIGHT, "node_logprobs": [-9, -1, -2, -4], "drafts": [draft]}
                      ).entries[0].round
    assert round_.tree.logprobs.tolist() == [0, -1, -3, -4]
    assert round_.drafts[0].tokens.tolist() == [[[1, 2]], [[3, 4]]] and round_.drafts[0].follow.shape == (2, 1, 2)


@pytest.mark.parametrize("text", [{5: "five", 9: "nine"}, lambda token: {5: "five", 9: "nine"}[token]])
def test_each_token_text_is_written_once_and_missing_ones_are_left_out(text: Any, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "run.jsonl.gz", *2 * [RIGHT], token_text=text,
                     prompt_ids=[9, 1])
    pieces = [trace.header.pieces, *(entry.pieces for entry in trace.entries)]
    assert [dict(named) for named in pieces] == [{9: "nine"}, {5: "five"}, {}]


@pytest.mark.slow  # imports torch
def test_torch_tensors_are_recorded(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors = {name: torch.tensor(value) for name, value in SMALL.items()}
    logprobs = torch.tensor([0, -1, -2, -3], dtype=torch.bfloat16)
    trace = recorded(
        tmp_path / "run.jsonl.gz", {**tensors, "keep": torch.tensor([0, 1]), "bonus": torch.tensor(9)},
        {**tensors, "keep": torch.tensor([0]), "bonus": torch.tensor([9]), "logprobs": logprobs,
         "entropy": torch.ones(4, requires_grad=True)}, strict=True)
    first, second = trace.rounds
    assert first.committed.tolist() == [7, 3]
    assert second.tree.logprobs.tolist() == [0, -1, -2, -3]
    assert second.verification.entropy.tolist() == [1] * 4


def test_later_changes_of_the_loops_arrays_are_not_recorded(tmp_path: Path) -> None:
    tokens, keep = np.asarray([7, 3, 4, 5]), [0, 1]
    with Recorder(tmp_path / "run.jsonl.gz") as recorder:
        recorder.round(tokens=tokens, parents=[0, 0, 1, 0], keep=keep, bonus=9)
        tokens[:], keep[:] = 0, [3, 3]
    assert load(tmp_path / "run.jsonl.gz").entries[0].round.committed.tolist() == [7, 3]


WIDE = {"tokens": np.zeros((2, 2**19), int), "logprobs": np.zeros((2, 2**19))}  # more bytes than a line may hold
WRONG: tuple[dict[str, Any], ...] = (
    *({"parents": parents} for parents in ([0, 0, 3, 0], [2, 0, 1, 0], [0, 0, 1])),
    *({"keep": keep} for keep in ([0, 2], [1], [], [0, 9], [0, -1], 7)),
    *({"tokens": tokens} for tokens in ([.5] * 4, [7, -3, 4, 5], [[1], [2, 3]])),
    {"tokens": [1] * 16_385, "parents": [0] * 16_385}, {"bonus": [1, 2]}, {"bonus": 2**31}, {"choices": 1},
    {"choice": [1, 2]}, {"choice": [0, 0, 0, -2]}, {"start": 2**40}, {"start": -1},
    {"gap": [0, 1, -float("inf"), 0]}, {"logprobs": [0, 5, 5, 0]}, {"drafters": [0, 2**16, 0, 0]},
    {"trials": {"nodes": [4], "chances": [1], "draws": [0]}}, {"trials": {"nodes": [1], "chances": [1]}},
    {"candidates": [{"tokens": [1]}]}, {"drafts": [{"tokens": [[1]], "logprobs": [[0]]}] * 17},
    *({"drafts": [draft]} for draft in (
        WIDE, {"tokens": [1, 2], "logprobs": [1, 2]}, {"tokens": [[[1]]], "logprobs": [[0]], "follow": [[[1]]]},
        {"tokens": np.zeros((1, 2**20 + 1), int), "logprobs": np.zeros((1, 2**20 + 1))})),
    *({"seconds": seconds} for seconds in (
        {"draft": float("nan")}, {"x" * 500: 1}, {"\ud800": 1}, {str(stage): 1 for stage in range(65)})))


@pytest.mark.parametrize("wrong", WRONG, ids=" ".join)
def test_a_wrong_round_is_refused_and_recording_continues(
        wrong: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wrong = {**RIGHT, **wrong}
    with caplog.at_level(logging.WARNING):
        trace = recorded(tmp_path / "run.jsonl", RIGHT, wrong, wrong, RIGHT)
    assert [entry.round.index for entry in trace.entries] == [0, 3]
    assert (trace.end.rounds, trace.end.refused) == (4, 2)
    assert len(caplog.messages) == 1
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text("utf8").splitlines()]
    assert [line["refused"]["index"] for line in lines if "refused" in line] == [1, 2]
    with Recorder(tmp_path / "strict.jsonl", strict=True) as recorder, pytest.raises(RecorderError):
        recorder.round(**wrong)


@pytest.mark.parametrize("wrong", [{"bonus": -1}, {"start": 2**40}, {"start": -1}, {"start": 1.5}, {"entropy": [7]}])
def test_rounds_after_a_refused_one_keep_their_index_and_start(wrong: dict[str, Any], tmp_path: Path) -> None:
    right = {**SMALL, "keep": [0, 1], "bonus": 9}
    trace = recorded(tmp_path / "run.jsonl", right, {**right, **wrong}, right, prompt_ids=[1, 2, 3])
    assert [(entry.round.index, entry.round.start) for entry in trace.entries] == [(0, 3), (2, 7)]


HALF, FULL = "\ud83d", "x" * 2**20
FIELDS: dict[str, Any] = {
    "prompt": [FULL + "x", HALF, b"x", "," * 2**20], "title": ["x" * 8193], "note": [b"x"], "budget": ["x", -1, 2**31],
    "method": ["x" * 201], "context_limit": [-1, None], "prompt_ids": [[-1], [2**31], [0.5], np.zeros(2**20 + 1, int)],
    "stop_ids": [["a"]], "drafters": [["x"] * 17, "ab", [HALF]], "hardware": [{}],
    "sampling": [{"heat": 1}, {"temperature": float("inf")}, {"top_p": 2}, [], {"top_k": "x"}]}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in FIELDS.items() for value in values])
def test_run_fields_that_do_not_fit_are_left_out_and_noted(
        name: str, value: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        trace = recorded(tmp_path / "run.jsonl", RIGHT, **{name: value, "title": "T"} if (
            name != "title") else {name: value}, token_text=str)
    assert len(trace.entries) == 1
    assert trace.header.title == ("" if name == "title" else "T")
    if value is not None:
        assert name in caplog.messages[0] and name in trace.header.note


@pytest.mark.parametrize("value", ["x" * 1025, HALF, b"x" * 1025, b"\xff" * 1025, [256], None, 7, ["a"]])
def test_an_impossible_token_text_is_left_out(value: Any, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "run.jsonl", RIGHT, prompt_ids=[7, 8],
                     token_text=lambda token: value if token == 7 else "text")
    assert dict(trace.header.pieces) == {8: "text"}


def test_an_incomplete_character_is_kept_as_bytes(tmp_path: Path) -> None:
    first, second = "τ".encode()[:1], "τ".encode()[1:]
    trace = recorded(tmp_path / "run.jsonl", RIGHT, token_text={
        3: first, 4: second, 5: "τ".encode(), 7: b"a"})
    assert dict(trace.entries[0].pieces) == {3: tuple(first), 4: tuple(second), 5: "τ", 7: "a"}


@pytest.mark.parametrize(("name", "limits"), [
    ("run.jsonl", {"MAX_ROUNDS": 3}), ("run.jsonl", {"MAX_FILE_BYTES": 14_000}),
    ("run.jsonl.gz", {"MAX_UNPACKED_BYTES": 14_000})])
def test_a_full_file_takes_no_more_rounds(
        name: str, limits: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in {"SPARE_BYTES": 10_000, **limits}.items():
        monkeypatch.setattr(engine.recorder, limit, value)
    trace = recorded(tmp_path / name, *60 * [RIGHT])
    assert 0 < len(trace.entries) < 60
    assert len(trace.entries) + trace.end.refused == 60


def test_every_tenth_round_is_recorded_with_its_index(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "run.jsonl.gz", *25 * [{**SMALL, "keep": [0, 1], "bonus": 9}], every=10)
    assert [(entry.round.index, entry.round.start) for entry in trace.entries] == [(0, 0), (10, 20), (20, 40)]
    assert (trace.header.every, trace.end.rounds) == (10, 25)


@pytest.mark.parametrize("name", ["max_pending", "most_waiting"])
def test_a_full_queue_drops_rounds_and_counts_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.recorder, "SECONDS_BETWEEN_WRITES", 60)
    trace = recorded(tmp_path / "run.jsonl.gz", *20 * [RIGHT], **{name: 5})
    assert len(trace.entries) == 5
    assert (trace.end.rounds, trace.end.dropped) == (20, 15)


@pytest.mark.parametrize("about", [{"every": 0}, {"every": "x"}, {"max_pending": 0}, {"methods": "x"}])
def test_bad_options_and_paths_are_refused_at_once(about: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RecorderError, match=next(iter(about))):
        Recorder(tmp_path / "run.jsonl.gz", **about)
    with pytest.raises(RecorderError, match=str(tmp_path / "nowhere")):
        Recorder(tmp_path / "nowhere" / "run.jsonl")
    for path in ("a\0b", tmp_path / "a\0b", 7.5, None):
        with pytest.raises(RecorderError, match="trace"):
            Recorder(path)  # type: ignore[arg-type]
    with pytest.raises(RecorderError, match="budget.*'x'"):
        Recorder(tmp_path / "run.jsonl", budget="x", strict=True)


@pytest.mark.parametrize("place", ["pipe", "pipe.gz", "/dev/zero", "/dev/null", "."])
def test_only_an_ordinary_file_is_recorded_to(place: str, tmp_path: Path) -> None:
    for name in ("pipe", "pipe.gz"):
        os.mkfifo(tmp_path / name)
    with at_most(20), pytest.raises(RecorderError):
        Recorder(tmp_path / place)  # joined to "/dev/zero" it is that device


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_ends_the_recording_and_not_the_loop(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("wb")  # noqa: SIM115 (the recorder closes it)
    monkeypatch.setattr(engine.recorder, "open", lambda *_: full, raising=False)
    with Recorder(tmp_path / "run.jsonl.gz") as recorder:
        def has_ended() -> bool:
            before = recorder.dropped
            for _ in range(200):
                recorder.round(**RIGHT)
            return "Recording ends" in caplog.text and recorder.dropped == before + 200

        until(has_ended)


WALL = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in sys.stdlib_module_names | {"numpy", "recorder"}:
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Wall())
import recorder
"""
LOOP = WALL + """
with recorder.Recorder("run.jsonl.gz", prompt="Hi", method="m", engine="e", token_text={7: "seven"}) as watched:
    watched.round(tokens=[7, 3], parents=[-1, 0], keep=[0, 1], bonus=9, drafts=[{"tokens": [[3]], "logprobs": [[0]]}])
"""
KILLED = WALL + """
import time
watched = recorder.Recorder("run.jsonl.gz")
for _ in range(1000):
    watched.round(tokens=[7, 3], parents=[-1, 0], keep=[0, 1], bonus=9)
    time.sleep(0.01)
"""
LEFT_OPEN = WALL + """
watched = recorder.Recorder("run.jsonl.gz")
watched.round(tokens=[7, 3], parents=[-1, 0], keep=[0, 1], bonus=9)
"""


def start_alone(folder: Path, program: str) -> subprocess.Popen[str]:
    """Start a program that can import the copied file, numpy and the standard library, and nothing else."""
    shutil.copy(HOUSE / "engine" / "recorder.py", folder)
    start = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    return subprocess.Popen(
        [sys.executable, "-I", "-c", start + program], cwd=folder, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("program", [LOOP, LEFT_OPEN])
def test_the_file_works_alone_with_numpy_only(program: str, tmp_path: Path) -> None:
    done = start_alone(tmp_path, program)
    assert (done.communicate(timeout=60)[1], done.returncode) == ("", 0)
    trace = load(tmp_path / "run.jsonl.gz")
    assert trace.entries[0].round.committed.tolist() == [7, 3]
    assert trace.end.reason == "unknown"


def test_a_killed_process_leaves_its_rounds(tmp_path: Path) -> None:
    loop = start_alone(tmp_path, KILLED)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (
            not (tmp_path / "run.jsonl.gz").exists() or (tmp_path / "run.jsonl.gz").stat().st_size < 1500):
        time.sleep(0.02)
    loop.send_signal(signal.SIGKILL)
    loop.communicate()
    trace = load(tmp_path / "run.jsonl.gz")
    assert len(trace.entries) > 3
    assert trace.end.reason == "cut"
