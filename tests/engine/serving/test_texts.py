"""Rigs whose tokenizers drop the first space: every output shows the same text."""

import json
from pathlib import Path

import pytest

from engine.commands.program import main
from engine.measure.instruments import LiveLaboratory
from engine.records import PromptRequest
from engine.serving.rigs import load_rig
from engine.trace import RunText, as_bytes, dumps, loads
from tests.engine.published import write_short
from tests.engine.tokenizer_kinds import kind

PROMPT = "one <|im_end|> two"


@pytest.mark.parametrize("name", ["sentencepiece", "unigram"])
def test_generate_trace_and_command_line_show_the_decoded_text(
        name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = kind(name)
    folder = write_short(tmp_path / "target", "Qwen3-8B", vocab_size=len(tokenizer), num_hidden_layers=2)
    (folder / "chat_template.jinja").unlink()
    tokenizer.save_pretrained(folder)
    rig = load_rig(f"{folder}::ngram", "float32", "cpu")
    own = tokenizer.apply_chat_template([{"role": "user", "content": "one"}], add_generation_prompt=True)
    assert rig.prepare(PromptRequest("one")).request.prompt_ids == tuple(own["input_ids"])
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert rig.prepare(PromptRequest(PROMPT)).request.prompt_ids.count(end) == own["input_ids"].count(end)
    answer = rig.generate(PROMPT, method="ddtree", budget=4, max_tokens=40)
    list(answer)
    text = tokenizer.decode(answer.token_ids)
    assert answer.text == text and str(RunText(loads(dumps(answer.trace)).lines)) == text
    shown = LiveLaboratory(rig).text_pieces(answer.token_ids)
    assert b"".join(map(as_bytes, shown)).decode("utf8", "replace") == text
    assert main(["generate", "--prompt", PROMPT, "--rig", f"{folder}::ngram", "--dtype", "float32", "--method",
                 "ddtree", "--budget", "4", "--max-tokens", "40", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.strip().splitlines()[-1])["text"] == text
