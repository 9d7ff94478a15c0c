"""A rig in a script or a notebook: opened by name, its rounds read one by one."""

from itertools import islice
from pathlib import Path

import pytest

from engine import open_rig
from engine.errors import RequestError, RigError, TraceError
from engine.trace import dump, load
from tests.engine.demo import demo_rig


def test_rounds_are_read_as_they_are_made_and_the_text_is_the_targets(tmp_path: Path) -> None:
    rig = open_rig("demo", "float32")
    plain = rig.generate("What is 3 + 4?", method="autoregressive", budget=0, max_tokens=24)
    assert all(len(made.acceptance.keep) == 1 for made in plain) and plain.text
    answer = rig.generate("What is 3 + 4?", method="ddtree", budget=16, max_tokens=24)
    first = next(answer)
    assert answer.token_ids == first.committed.tolist() and plain.text.startswith(answer.text)
    with pytest.raises(TraceError):
        answer.trace  # noqa: B018  # it has not ended
    rounds = [first, *answer]
    assert answer.text == plain.text and len(rounds) < len(answer.token_ids) == len(plain.token_ids)
    dump(answer.trace, tmp_path / "run.jsonl")
    assert len(load(tmp_path / "run.jsonl").entries) == len(rounds)


def test_an_answer_that_is_closed_frees_the_rig_for_the_next() -> None:
    rig = open_rig("demo", "float32")
    answer = rig.generate("What is 3 + 4?", method="ddtree", budget=8, max_tokens=200)
    assert len(list(islice(answer, 2))) == 2
    answer.close()
    assert list(answer) == [] and list(rig.generate("Hi", method="dflash", budget=4, max_tokens=5))


def test_what_cannot_be_done_is_said_before_the_first_round() -> None:
    with pytest.raises(RigError, match="There is no rig"):
        open_rig("no such rig")
    rig = open_rig("demo", "float32")
    with pytest.raises(RequestError, match="There is no method"):
        rig.generate("Hi", method="magic")
    assert demo_rig().name == rig.rig
