"""Damaged checkpoints: every JSON file of a folder with values that nobody expects, safetensors and GGUF files that are
cut off or lie. Each is opened as a rig; one that opens answers a prompt."""

import json
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st

from engine.checkpoints.gguf_header import header_of
from engine.errors import CanopyError
from engine.records import PromptRequest
from engine.serving.rigs import load_rig
from tests.attack.area import Area, Case, check_sentence
from tests.attack.strategies import ODD, bent_json, often
from tests.engine.checkpoints.test_gguf import small_llama, write_gguf
from tests.engine.published import write_short

TEXTS = st.sampled_from(("", "{", "[]", "null", "3", '"x"', "[" * 100_000, '{"a":' * 100_000, '{"a":1e999}', "9" * 5000,
                         "\ud800"))
VALUES = st.integers() | st.floats() | st.sampled_from((10**15, 10**9, 2**31, 2**53, 8193, 131_072)) | ODD
HEADER_BYTES = 3000  # of the GGUF file, and of the safetensors file's beginning


class Attack(Area):
    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory()
        folder = Path(self._place.name)
        os.environ["CANOPY_CACHE"] = str(folder / "kept")
        self._sound, self._rig = write_short(folder / "sound", "Qwen3-8B", num_hidden_layers=1), folder / "rig"
        make_small(self._sound / "tokenizer.json")
        self._bytes = {"model.gguf": write_gguf(folder / "model.gguf", small_llama()).read_bytes(),
                       "model.safetensors": (self._sound / "model.safetensors").read_bytes()}
        values = {path.name: json.loads(path.read_text("utf8")) for path in sorted(self._sound.glob("*.json"))}
        damage = st.fixed_dictionaries({
            "file": st.sampled_from(sorted(self._bytes)), "place": st.integers(0, HEADER_BYTES),
            "damage": st.binary(min_size=1, max_size=8).map(bytes.hex), "left": st.just(0) | st.integers(1, 2**20),
            "whole": often(False, True, times=39)})  # a damaged GGUF file is converted
        texts = st.sampled_from(sorted(values)).flatmap(lambda name: st.fixed_dictionaries({
            "file": st.just(name), "text": bent_json(values[name], odd=VALUES).map(json.dumps) | TEXTS}))
        self.cases = damage | texts

    def trial(self, case: Case) -> None:
        shutil.rmtree(self._rig, ignore_errors=True)
        shutil.copytree(self._sound, self._rig)
        path = self._rig / case["file"]
        if "text" in case:
            path.write_bytes(case["text"].encode("utf8", "surrogatepass"))
        else:
            data, damage = self._bytes[case["file"]], bytes.fromhex(case["damage"])
            data = data[:case["place"]] + damage + data[case["place"] + len(damage):]
            path.write_bytes(data[:case["left"] or len(data)])
        try:
            if path.suffix == ".gguf":
                header_of(path)
                if not case["whole"]:
                    return
            rig = load_rig(f"{path if path.suffix == '.gguf' else self._rig}::ngram", "float32", "cpu")
            list(rig.prepare(PromptRequest("ab th a", budget=2, max_tokens=2, method="expand")).lines())
        except CanopyError as error:
            check_sentence(error, 900)

    def close(self) -> None:
        self._place.cleanup()


def make_small(path: Path) -> None:
    """Cut a vocabulary to 400 tokens, which are read in a moment."""
    tokenizer = json.loads(path.read_text("utf8"))
    model = tokenizer["model"]
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < 400}
    model["merges"] = [pair for pair in model["merges"]
                       if all(part in model["vocab"] for part in (*pair, "".join(pair)))]
    path.write_text(json.dumps(tokenizer), "utf8")
