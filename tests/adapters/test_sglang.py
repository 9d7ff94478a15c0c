"""The SGLang plugin: the hook is called with tensors in SGLang's layouts, made from trees of our own engine."""

import logging
import sys
import time
from collections.abc import Callable
from inspect import Parameter, Signature
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.records import Request, Round
from engine.trace import Trace, load
from tests.adapters.test_loops import recorded_parts
from tests.engine.material import GREEDY, drafters_of, run
from tests.engine.toy import ToyTarget

torch = pytest.importorskip("torch")
PACKAGE = Path(__file__).parents[2] / "adapters" / "sglang"


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as if it were installed."""
    monkeypatch.syspath_prepend(PACKAGE)


def rounds_of(seed: int, method: str = "ddtree") -> list[Round]:
    """A toy run of fixed width, for SGLang verifies the same number of rows for every request, but for its last round,
    which the engine cuts at max_tokens and SGLang does later."""
    target = ToyTarget(seed=seed, vocabulary=8)
    request = Request((1, 2, seed % 5), method=method, budget=9, max_tokens=20, sampling=GREEDY)
    rounds = run(request, target, drafters_of(method, target))
    return [round_ for round_ in rounds[:-1] if len(round_.tree) == 10]


def tensors_of(rounds: list[Round], prefix: str) -> dict[str, Any]:
    """One verify pass over these rounds' trees, a request each, as ``verify_tree_greedy_func`` gets it."""
    size = len(rounds[0].tree)
    child, sibling = (np.full((len(rounds), size), -1, np.int64) for _ in range(2))
    for request, round_ in enumerate(rounds):
        last: dict[int, int] = {}
        for row, parent in enumerate(round_.tree.parents.tolist()[1:], start=1):
            if parent in last:
                sibling[request, last[parent]] = row
            else:
                child[request, parent] = row
            last[parent] = row
    return {
        "predicts": torch.zeros(len(rounds) * size, dtype=torch.int32),
        "accept_index": torch.full((len(rounds), 8), -1, dtype=torch.int32),
        "accept_token_num": torch.zeros(len(rounds), dtype=torch.int32),
        "candidates": torch.tensor(np.stack([round_.tree.tokens for round_ in rounds])).long(),
        f"{prefix}_index": torch.arange(len(rounds) * size).reshape(len(rounds), size),
        f"{prefix}_next_token": torch.tensor(child), f"{prefix}_next_sibling": torch.tensor(sibling),
        "target_predict": torch.tensor(np.stack([round_.verification.choice for round_ in rounds])).long()}


def verify_with(prefix: str) -> Callable[..., Any]:
    """``verify_tree_greedy_func`` with its arguments spelt as today or before. As SGLang's kernel it follows the
    target's choices and writes the accepted rows in place."""
    def verify(**given: Any) -> Any:
        child, sibling, candidates = (given[name] for name in (
            f"{prefix}_next_token", f"{prefix}_next_sibling", "candidates"))
        size = candidates.shape[1]
        for request, choice in enumerate(given["target_predict"]):
            row, count = 0, 0
            while row >= 0:
                given["accept_index"][request, count] = request * size + row
                count += 1
                below = int(child[request, row])
                while below >= 0 and candidates[request, below] != choice[row]:
                    below = int(sibling[request, below])
                row = below
        return given["predicts"], given["accept_index"], given["accept_token_num"]

    verify.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in (  # type: ignore[attr-defined]
        "predicts", "accept_index", "accept_token_num", "candidates", f"{prefix}_index", f"{prefix}_next_token",
        f"{prefix}_next_sibling", "target_predict", "topk")])
    return verify


def recorded(folder: Path, count: int) -> list[Trace]:
    """The files, once there are that many with all that was handed over, closed."""
    deadline = time.monotonic() + 20
    while len(list(folder.iterdir())) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return [load(path) for path in sorted(folder.iterdir())]


def serve(passes: Any, prefix: str, requests: list[list[Round]]) -> None:
    """Serve the requests as one batch; one that has ended leaves it, and the others move up."""
    for step in range(max(map(len, requests))):
        batch = [rounds[step] for rounds in requests if step < len(rounds)]
        named = tensors_of(batch, prefix)
        given = passes.around(verify_with(prefix), **named, topk=4)
        assert given[1] is named["accept_index"]
        for tensor in named.values():
            tensor.fill_(-7)  # SGLang uses its buffers again


def ended(passes: Any) -> None:
    """Wait until the thread has written all."""
    deadline = time.monotonic() + 20
    while passes._waiting and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    for recorder in passes._runs._open.values():
        recorder.close()


@pytest.mark.parametrize("prefix", ["retrieve", "retrive"])
def test_the_rounds_of_a_batch_come_back_request_by_request(prefix: str, tmp_path: Path) -> None:
    from canopy_sglang.passes import VerifyPasses

    requests = [rounds_of(3), rounds_of(4)]
    passes = VerifyPasses(str(tmp_path), 1, {})
    serve(passes, prefix, requests)
    ended(passes)
    written = [[entry.round for entry in trace.entries] for trace in recorded(tmp_path, len(requests))]
    assert sorted(map(recorded_parts, chain(*written))) == sorted(map(recorded_parts, chain(*requests)))
    assert len(list(chain(*written))) > 4
    for rounds in written:
        for before, after in zip(rounds[:-1], rounds[1:], strict=True):
            assert before.acceptance.bonus == after.tree.tokens[0]


def test_every_so_manieth_pass_is_recorded(tmp_path: Path) -> None:
    from canopy_sglang.passes import VerifyPasses

    rounds = rounds_of(3)
    passes = VerifyPasses(str(tmp_path), 2, {})
    serve(passes, "retrieve", [rounds])
    ended(passes)
    (trace,) = recorded(tmp_path, 1)
    assert [recorded_parts(entry.round) for entry in trace.entries] == list(map(recorded_parts, rounds[::2]))


def test_names_that_fit_no_version_are_said_once_and_end_nothing(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from canopy_sglang.passes import VerifyPasses

    def verify(candidates: Any, tree_links: Any) -> str:
        return "verified"

    passes = VerifyPasses(str(tmp_path), 1, {})
    with caplog.at_level(logging.WARNING):
        assert [passes.around(verify, torch.zeros(1, 4), torch.zeros(1)) for _ in range(3)] == ["verified"] * 3
    assert len(caplog.messages) == 1
    assert "has no retrieve_next_token or retrive_next_token; it has candidates, tree_links." in caplog.text


def test_rows_whose_order_puts_a_child_first_are_put_right() -> None:
    from canopy_sglang.passes import _rows

    assert _rows(np.asarray([3, -1, -1, 1, -1]), np.asarray([-1, 2, -1, -1, -1])) == (
        [0, 3, 1, 2], [0, 0, 1, 1])  # row 4 hangs nowhere


def test_it_registers_where_it_is_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a stand-in of SGLang's registry, with its names."""
    from canopy_sglang import TARGET, register

    hooks: list[Any] = []
    registry = ModuleType("sglang.srt.plugins.hook_registry")
    registry.HookRegistry = SimpleNamespace(register=lambda *given: hooks.append(given))  # type: ignore[attr-defined]
    registry.HookType = SimpleNamespace(AROUND="around")  # type: ignore[attr-defined]
    for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "sglang.srt.plugins.hook_registry", registry)
    monkeypatch.delenv("CANOPY_TRACES", raising=False)
    register()
    assert hooks == []
    monkeypatch.setenv("CANOPY_TRACES", str(tmp_path))
    register()
    assert [(target, kind) for target, _, kind in hooks] == [(TARGET, "around")]


def test_the_package_carries_the_recorder_itself() -> None:
    assert (PACKAGE / "canopy_sglang" / "recorder.py").resolve() == PACKAGE.parents[1] / "engine" / "recorder.py"
