"""The rig that the page opens with is lossless on prompts that people wrote: every text is plain decoding's."""

import json
from pathlib import Path

import pytest

from engine.commands.program import main
from engine.errors import RigError
from engine.lab.settings import SHIPPED
from engine.requests.rig_names import DEFAULT_RIG
from engine.serving.rigs import load_rig

BUDGETS = (7, 32)
PROMPTS, TOKENS = 4, 24
NOT_TO_BE_HAD = ("cannot be fetched", "did not come")  # by the package index


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """A few of the people's prompts, of as many kinds: they stand by kind."""
    lines = (SHIPPED / "people.jsonl").read_text(encoding="utf8").splitlines()
    file = tmp_path / "few.jsonl"
    file.write_text("\n".join(lines[::len(lines) // PROMPTS][:PROMPTS]) + "\n", encoding="utf8")
    return file


@pytest.fixture
def rig() -> str:
    """Its name, where its weights can be had."""
    try:
        load_rig(DEFAULT_RIG, "float32")
    except RigError as error:
        if any(said in str(error) for said in NOT_TO_BE_HAD):
            pytest.skip(str(error))
        raise
    return DEFAULT_RIG


@pytest.mark.long
def test_every_text_is_that_of_plain_decoding(rig: str, prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["check", "--rig", rig, "--prompts", str(prompts), "--budgets", *map(str, BUDGETS),
                   "--max-tokens", str(TOKENS), "--json"])
    found = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert found["differences"] == [] and status == 0
    assert found["prompts"] == PROMPTS and found["budgets"] == list(BUDGETS) and "ddtree" in dict(found["methods"])
    assert found["equal"] == found["texts"] == PROMPTS * len(BUDGETS) * len(found["methods"])
