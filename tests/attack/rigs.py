"""Hostile rig folders: false model cards, tokenizers, chat templates and phrase tables, JSON files with unexpected
values, safetensors and GGUF files that are truncated or damaged. Each is opened; a rig that opens either answers
prompts or refuses with a sentence."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from engine.checkpoints.gguf_header import read_header
from engine.errors import CanopyError
from engine.serving.rigs import load_rig
from engine.texts import process
from recipes.own_answers.phrases import export, orders_of
from tests.attack.area import Area, Case, check_sentence
from tests.attack.strategies import ODD, mostly, mutated, mutated_json
from tests.engine.checkpoints.test_gguf import small_llama, write_gguf
from tests.engine.drafters.test_phrases import shard
from tests.engine.published import write_short

CARD: dict[str, Any] = {
    "title": "sent", "good_at": "Sums.", "drafters": ["phrases"], "defaults": {"0": [], "1": ["phrases"]},
    "familiar": ["ab"], "familiar_nats": 0.5, "revisions": {"target": "1"}, "acceptance_lengths": {"1": 1.4}}
IN_CARDS = st.sampled_from(("..", "../sound", "/etc/passwd", "x" * 10_000, "a\nb", "a\0b", "(x+x+)+y", "(?L)")) | ODD
REGEXES = st.sampled_from((".", "", "x", "(x+x+)+y", "(?=x)", "(", "\\p{L}+", "^"))
CONTENTS = st.sampled_from(("", "x", "yy", "y" * 1000, "y" * 100_000, "\0", "🌳", "▁"))
FRAGMENTS = st.sampled_from((
    "{% for m in messages %}{{ m.content }}{% endfor %}", "{{ messages }}", "{{ messages[0].content * 1000 }}",
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "{{ 'x' * 3000000000 }}",
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "{{ raise_exception('no\nsir') }}", "{{ 9 ** 9 ** 9 }}",
    "{{ ''.__class__.__mro__ }}", "{{ undefined.x }}", "{{ range(10 ** 12) | list }}", "{% if %}", "{% include 'x' %}",
    "{% set x = namespace(y='z') %}{% for i in range(60) %}{% set x.y = x.y ~ x.y %}{% endfor %}{{ x.y }}", "\0"))
STEPS = st.one_of(  # of a tokenizer: they may loop, grow the text or do nothing
    st.builds(lambda regex, content: {"type": "Replace", "pattern": {"Regex": regex}, "content": content}, REGEXES,
              CONTENTS),
    st.builds(lambda regex: {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False},
              REGEXES),
    st.builds(lambda content: {"type": "Prepend", "prepend": content}, CONTENTS),
    st.builds(lambda start: {"type": "Strip", "content": "x", "start": start, "stop": 0}, st.sampled_from((0, 10**9))),
    st.sampled_from(("Fuse", "ByteFallback", "NFKD")).map(lambda kind: {"type": kind}))
CHAINS = st.tuples(
    st.sampled_from((("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"), ("decoder", "decoders"))),
    st.lists(STEPS | STEPS.flatmap(mutated), min_size=1, max_size=3)).map(
        lambda made: {made[0][0]: {"type": "Sequence", made[0][1]: made[1]}})
ADDED = st.fixed_dictionaries({
    "id": st.sampled_from((1, 399, 400, 1535, 1536, 2**31)), "content": CONTENTS, "lstrip": st.just(True),
    "rstrip": st.just(True), "single_word": st.just(False), "normalized": st.booleans(), "special": st.booleans()})
PHRASES = st.fixed_dictionaries({
    "phrases": st.builds(str.__add__, st.sampled_from(("keys", "ends", "tokens", "codes")), st.sampled_from("123")),
    "lie": st.lists(st.integers(0, 2**16) | st.integers(0, 2**63 - 1), max_size=7),
    "dtype": st.sampled_from(("uint8", "uint16", "uint32", "uint64", "int64"))})
TEXTS = st.sampled_from(("", "{", "[]", "null", "3", '"x"', "[" * 100_000, '{"a":' * 100_000, '{"a":1e999}', "9" * 5000,
                         "\ud800"))
VALUES = st.integers() | st.floats() | st.sampled_from((10**15, 10**9, 2**31, 2**53, 8193, 131_072)) | ODD
HEADER_BYTES = 3000  # of the GGUF file, and of the safetensors file's beginning


class Attack(Area):
    def __init__(self) -> None:
        process.TEXT_SECONDS = 1  # for a text
        self._folder = tempfile.TemporaryDirectory()
        place = Path(self._folder.name)
        self._rig, self._sound = place / "rig", place / "sound"
        os.environ["CANOPY_CACHE"] = str(place / "kept")
        target = write_short(self._sound / "target", "Qwen3-8B", num_hidden_layers=1)
        shrink_vocabulary(target / "tokenizer.json")
        write_gguf(self._sound / "model.gguf", small_llama())
        (self._sound / "phrases").mkdir()
        export(orders_of([shard([1, 2, 3, 4, 2, 3, 5], 1)]), self._sound / "phrases", 1536, {})
        values = {f"target/{path.name}": json.loads(path.read_text("utf8")) for path in sorted(target.glob("*.json"))}
        self._tokenizer = values["target/tokenizer.json"]
        added = ADDED.flatmap(lambda token: mutated([*self._tokenizer["added_tokens"], token])).map(
            lambda tokens: {"added_tokens": tokens})
        self.cases = st.one_of(
            st.lists(FRAGMENTS, min_size=1, max_size=4).map(lambda parts: {"template": "".join(parts)}), PHRASES,
            mutated_json(CARD, odd=IN_CARDS).map(lambda card: {"card": card}),
            (CHAINS | added).map(lambda tokenizer: {"tokenizer": tokenizer}),
            st.sampled_from(sorted(values)).flatmap(lambda name: st.fixed_dictionaries({
                "file": st.just(name), "text": mutated_json(values[name], odd=VALUES).map(json.dumps) | TEXTS})),
            st.fixed_dictionaries({
                "file": st.sampled_from(("model.gguf", "target/model.safetensors")),
                "place": st.integers(0, HEADER_BYTES), "left": st.just(0) | st.integers(1, 2**20),
                "damage": st.binary(min_size=1, max_size=8).map(bytes.hex),
                "whole": mostly(False, True, times=39)}))  # a damaged GGUF file is converted

    def trial(self, case: Case) -> None:
        self._write(case)
        gguf = self._rig / "model.gguf" if case.get("file") == "model.gguf" else None
        try:
            if gguf:
                read_header(gguf)
                if not case["whole"]:
                    return
            rig = load_rig(f"{gguf}::ngram" if gguf else str(self._rig), "float32", "cpu")
            for prompt in ("ab th a", "x" * 60):
                answer = rig.generate(prompt, method="expand" if gguf else "ddtree", budget=3, max_tokens=3)
                list(answer)
                answer.text.encode("utf8", "surrogatepass")
        except CanopyError as error:
            check_sentence(error, 900)

    def close(self) -> None:
        self._folder.cleanup()

    def _write(self, case: Case) -> None:
        shutil.rmtree(self._rig, ignore_errors=True)
        shutil.copytree(self._sound, self._rig)
        target = self._rig / "target"
        files = {self._rig / "rig.json": json.dumps(case.get("card", CARD))}
        if "template" in case:
            files[target / "chat_template.jinja"] = case["template"]
        if "tokenizer" in case:
            files[target / "tokenizer.json"] = json.dumps({**self._tokenizer, **case["tokenizer"]})
        if "text" in case:
            files[self._rig / case["file"]] = case["text"]
        for path, text in files.items():
            path.write_bytes(text.encode("utf8", "surrogatepass"))
        if "damage" in case:
            path, damage = self._rig / case["file"], bytes.fromhex(case["damage"])
            data = path.read_bytes()
            data = data[:case["place"]] + damage + data[case["place"] + len(damage):]
            path.write_bytes(data[:case["left"] or len(data)])
        if "phrases" in case:
            file = self._rig / "phrases" / "model.safetensors"
            lie = np.array(case["lie"], np.int64).astype(case["dtype"])
            save_file({**load_file(file), case["phrases"]: lie}, file)


def shrink_vocabulary(path: Path) -> None:
    """Cut the vocabulary to 400 tokens, so that it loads quickly."""
    tokenizer = json.loads(path.read_text("utf8"))
    model = tokenizer["model"]
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < 400}
    model["merges"] = [pair for pair in model["merges"]
                       if all(part in model["vocab"] for part in (*pair, "".join(pair)))]
    path.write_text(json.dumps(tokenizer), "utf8")
