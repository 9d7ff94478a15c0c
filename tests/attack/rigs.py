"""Rig folders that somebody sent: cards, tokenizers, chat templates and tables of phrases that lie. Each is opened; one
that opens answers two prompts, or says in a sentence why not. None runs a package's code."""

import copy
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from safetensors.numpy import load_file, save_file

from engine.errors import CanopyError
from engine.serving.rigs import load_rig
from engine.texts import process
from recipes.own_answers.phrases import export, orders_of
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.attack.checkpoints import make_small
from tests.attack.mutations import bent
from tests.engine.drafters.test_phrases import shard
from tests.engine.published import write_short
from tests.engine.serving.test_sent_rig import BACKEND, PROJECT

CARD: dict[str, Any] = {
    "title": "sent", "good_at": "Sums.", "drafters": ["phrases"], "defaults": {"0": [], "1": ["phrases"]},
    "familiar": ["ab"], "familiar_nats": 0.5, "revisions": {"target": "1"}, "acceptance_lengths": {"1": 1.4}}
PACKAGE = {"name": "evil", "version": "1.0", "wheel_sha256": "0" * 64, "file": "a/b.gguf", "file_sha256": "0" * 64}
PLANTED = ("..", "../sound", "/etc/passwd", "-r", "--no-binary=:all:", "{folder}/evil-1.0.tar.gz",
           "http://127.0.0.1:9/x", "evil @ file://{folder}/evil-1.0.tar.gz#", "1.0.tar.gz",
           "a\nb", "a\0b", "(x+x+)+y", "(", "(?L)", "x" * 10_000)
PATTERNS = (".", "", "x", "(x+x+)+y", "(x|x)*y", "(?=x)", "(", "\\p{L}+", "[^a]", "^", "$")
CONTENTS = ("", "x", "yy", "y" * 1000, "y" * 100_000, "\0", "🌳", "▁")
FRAGMENTS = (
    "{% for m in messages %}{{ m.content }}{% endfor %}", "{{ messages }}", "{{ messages[0].content * 1000 }}",
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "{{ 'x' * 3000000000 }}",
    "{{ 'x' * 9999999 }}", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "{{ raise_exception('no\nsir') }}",
    "{{ '%999999999d' % 1 }}", "{{ 9 ** 9 ** 9 }}", "{{ 1 / 0 }}", "{{ ''.__class__.__mro__ }}", "{{ undefined.x }}",
    "{% set x = namespace(y='z') %}{% for i in range(60) %}{% set x.y = x.y ~ x.y %}{% endfor %}{{ x.y }}",
    "{{ messages | tojson(indent=4) }}", "{{ 'a' | center(10 ** 10) }}", "{{ range(10 ** 12) | list }}", "{% if %}",
    "{% generation %}x{% endgeneration %}", "{{ strftime_now('%Y' * 99999) }}", "<|im_start|>", "{% include 'x' %}",
    "{{ ('x' * 40) | replace('x', 'y' * 99999) | replace('y', 'z' * 999) }}", "{{ lipsum(n=100000) }}", "\0", "\ufeff")


def step(random: Random, values: Sequence[Any]) -> dict[str, Any]:
    """A part of a tokenizer that may loop, swell or be nothing at all."""
    kind = random.choice(("Replace", "Replace", "Replace", "Prepend", "Strip", "Split", "NFKD", "Fuse", "Metaspace",
                          "ByteFallback", "TemplateProcessing", "Digits", "Truncate"))
    made = {"type": kind, "pattern": {random.choice(("Regex", "Regex", "String")): random.choice(PATTERNS)},
            "content": random.choice(CONTENTS), "prepend": random.choice(CONTENTS),
            "start": random.choice((0, 1, 10**9)), "stop": random.choice((0, 1, 10**9)),
            "strip_left": True, "strip_right": True, "behavior": "Isolated",
            "invert": False, "replacement": "▁", "prepend_scheme": "always", "individual_digits": True,
            "single": [{"SpecialToken": {"id": "A", "type_id": 0}}] * random.choice((1, 100)) + [
                {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
            "special_tokens": {"A": {"id": "A", "ids": [random.choice((1, 2**31))] * 3, "tokens": ["a"] * 3}}}
    return bent(made, random, values) if random.random() < 0.2 else made


class Rigs(Area):
    def __init__(self) -> None:
        process.SECONDS = 1  # for a text
        self._place = tempfile.TemporaryDirectory()
        place = Path(self._place.name)
        self._rig, self._sound, self._proof = place / "rig", place / "sound", place / "proof"
        make_small(write_short(self._sound / "target", "Qwen3-8B", num_hidden_layers=1) / "tokenizer.json")
        (self._sound / "phrases").mkdir()
        export(orders_of([shard([1, 2, 3, 4, 2, 3, 5], 1)]), self._sound / "phrases", 1536, {})
        self._tokenizer = json.loads((self._sound / "target" / "tokenizer.json").read_text("utf8"))
        with tarfile.open(place / "evil-1.0.tar.gz", "w:gz") as archive:
            for name, text in (("pyproject.toml", PROJECT), ("backend.py", BACKEND.format(proof=str(self._proof)))):
                member = tarfile.TarInfo(f"evil-1.0/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        os.environ.update(CANOPY_CACHE=str(place / "kept"), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(place))

    def values(self) -> SearchStrategy[Any]:
        return st.one_of(st.integers(), st.floats(), st.text(max_size=12))

    def case(self, random: Random, values: Sequence[Any]) -> Case:
        """One of the four kinds, and what is written into its file."""
        kind = random.choice(("card", "tokenizer", "template", "phrases"))
        if kind == "template":
            return {kind: "".join(random.choices(FRAGMENTS, k=random.choice((1, 1, 2, 4))))}
        if kind == "phrases":
            name = random.choice(("keys", "ends", "tokens", "codes")) + random.choice("123")
            lie = [random.choice((0, 1, 5, 1535, 1536, 2**21, 2**31, 2**32 - 1, 2**63, random.randrange(2**16)))
                   for _ in range(random.choice((0, 1, 5, 7)))] * random.choice((1, 1, 1, 2000))
            return {kind: name, "lie": lie, "dtype": random.choice(("uint8", "uint16", "uint32", "uint64", "int64"))}
        if kind == "card":
            card = copy.deepcopy(CARD) | ({"package": PACKAGE} if random.random() < 0.4 else {})
            planted = [text.format(folder=self._place.name) for text in PLANTED]
            for _ in range(random.choice((0, 1, 1, 2, 3))):
                card = bent(card, random, [*values, *planted])
            return {kind: card}
        tokenizer = copy.deepcopy(self._tokenizer)
        part, inner = random.choice((("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"),
                                     ("decoder", "decoders"), ("post_processor", "processors"), ("added_tokens", "")))
        if inner:
            own = [tokenizer[part]] if tokenizer.get(part) and random.random() < 0.7 else []
            steps = [*own, *(step(random, values) for _ in range(random.choice((1, 2, 3))))]
            return {kind: {part: {"type": "Sequence", inner: steps}}}
        added = {"id": random.choice((1, 399, 400, 1535, 1536, 2**31)),
                 "content": random.choice((*CONTENTS, *PATTERNS)), "single_word": False, "lstrip": True, "rstrip": True,
                 "normalized": random.random() < 0.5, "special": random.random() < 0.5}
        return {kind: {part: bent([*tokenizer[part], added], random, values)}}

    def trial(self, case: Case) -> None:
        self._write(case)
        try:
            rig = load_rig(str(self._rig), "float32", "cpu")
            for prompt in ("ab th a", "x" * 60):
                answer = rig.generate(prompt, method="ddtree", budget=3, max_tokens=3)
                list(answer)
                answer.text.encode("utf8", "surrogatepass")
        except CanopyError as error:
            check_sentence(error, 900)
        if self._proof.exists():
            raise BrokenError("A package's build ran.")

    def _write(self, case: Case) -> None:
        shutil.rmtree(self._rig, ignore_errors=True)
        shutil.copytree(self._sound, self._rig)
        card = case.get("card", CARD)
        (self._rig / "rig.json").write_bytes(json.dumps(card).encode("utf8", "surrogatepass"))
        if isinstance(card, dict) and card.get("package"):
            shutil.rmtree(self._rig / "target")
        if "template" in case:
            (self._rig / "target" / "chat_template.jinja").write_bytes(case["template"].encode("utf8", "surrogatepass"))
        if "tokenizer" in case:
            (self._rig / "target" / "tokenizer.json").write_bytes(
                json.dumps({**self._tokenizer, **case["tokenizer"]}).encode("utf8", "surrogatepass"))
        if "phrases" in case:
            file = self._rig / "phrases" / "model.safetensors"
            lie = np.array([number % 2**63 for number in case["lie"]], np.int64).astype(case["dtype"])
            save_file({**load_file(file), case["phrases"]: lie}, file)

    def close(self) -> None:
        self._place.cleanup()
