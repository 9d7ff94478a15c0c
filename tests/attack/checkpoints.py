"""Damaged checkpoints: every JSON file of a folder with values that nobody expects, safetensors and GGUF files that are
cut off or lie. Each is opened as a rig; one that opens answers a prompt."""

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from engine.checkpoints.gguf_header import header_of
from engine.errors import CanopyError
from engine.records import PromptRequest
from engine.serving.rigs import load_rig
from tests.attack.area import Area, Case, check_sentence
from tests.attack.mutations import bent
from tests.engine.checkpoints.test_gguf import small_llama, write_gguf
from tests.engine.published import write_short

TEXTS = ("", "{", "[]", "null", "3", '"x"', "[" * 100_000, '{"a":' * 100_000, '{"a":1e999}', "9" * 5000, "\ud800")
NUMBERS = (10**15, 10**9, 2**31, 2**53, 8193, 131_072)
HEADER_BYTES = 3000  # of the GGUF file, and of the safetensors file's beginning
ONE_IS_CONVERTED = 40  # damaged GGUF files, of which the header passes in most


class Checkpoints(Area):
    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory()
        folder = Path(self._place.name)
        os.environ["CANOPY_CACHE"] = str(folder / "kept")
        self._sound = write_short(folder / "sound", "Qwen3-8B", num_hidden_layers=1)
        make_small(self._sound / "tokenizer.json")
        self._rig = folder / "rig"
        self._bytes = {"model.gguf": write_gguf(folder / "model.gguf", small_llama()).read_bytes(),
                       "model.safetensors": (self._sound / "model.safetensors").read_bytes()}
        self._values = {path.name: json.loads(path.read_text("utf8")) for path in self._sound.glob("*.json")}

    def values(self) -> SearchStrategy[Any]:
        return st.one_of(st.integers(), st.floats(), st.text(max_size=12), st.sampled_from(NUMBERS))

    def case(self, random: Random, values: Sequence[Any]) -> Case:
        """A file's name, and its text or what is written at which place of it."""
        name = random.choice((*self._values, *self._bytes, "model.gguf"))
        if name in self._bytes:
            size, cut = random.choice((1, 4, 8, 8)), random.randrange(1, len(self._bytes[name]))
            damage = random.choice((bytes(size), b"\xff" * size, random.randbytes(size)))
            return {"file": name, "place": random.randrange(HEADER_BYTES), "damage": damage.hex(),
                    "left": random.choice((0, 0, 0, cut)), "whole": not random.randrange(ONE_IS_CONVERTED)}
        if random.random() < 0.05:
            return {"file": name, "text": random.choice(TEXTS)}
        damaged = json.loads(json.dumps(self._values[name]))
        for _ in range(random.randrange(1, 4)):
            damaged = bent(damaged, random, values)
        return {"file": name, "text": json.dumps(damaged)}

    def trial(self, case: Case) -> None:
        shutil.rmtree(self._rig, ignore_errors=True)
        shutil.copytree(self._sound, self._rig)
        path = self._rig / case["file"]
        if "text" in case:
            path.write_bytes(case["text"].encode("utf8", "surrogatepass"))
        else:
            whole, damage = self._bytes[case["file"]], bytes.fromhex(case["damage"])
            whole = whole[:case["place"]] + damage + whole[case["place"] + len(damage):]
            path.write_bytes(whole[:case["left"] or len(whole)])
        try:
            if path.suffix == ".gguf":
                header_of(path)
                if not case["whole"]:
                    return
            rig = load_rig(f"{path if path.suffix == '.gguf' else self._rig}::ngram", "float32", "cpu")
            for _ in rig.run(PromptRequest("ab th a", budget=2, max_tokens=2, method="expand")):
                pass
        except CanopyError as error:
            check_sentence(error, 900)

    def close(self) -> None:
        self._place.cleanup()


def make_small(path: Path) -> None:
    """A vocabulary of 400 tokens, which is read in a moment."""
    tokenizer = json.loads(path.read_text("utf8"))
    vocabulary = {token: number for token, number in tokenizer["model"]["vocab"].items() if number < 400}
    tokenizer["model"].update(vocab=vocabulary, merges=[pair for pair in tokenizer["model"]["merges"] if all(
        part in vocabulary for part in (*pair, "".join(pair)))])
    path.write_text(json.dumps(tokenizer), "utf8")
