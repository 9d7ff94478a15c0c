"""Compiled layers give the same bits as torch, so either may compute any row of a text."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import nan
from pathlib import Path
from runpy import run_path
from threading import Event, Thread
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PretrainedConfig, Qwen2Config, Qwen3Config

from engine.models.cache import TreeCache
from engine.models.compiled import silu_and_mul
from engine.models.packed_linear import rounded_levels
from engine.models.passes import FusedPass, compiled_product
from engine.models.rows import PassPart, PassRows

SIZES = {"vocab_size": 64, "hidden_size": 192, "intermediate_size": 320, "num_hidden_layers": 3,
         "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 256}
CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "qwen2, with biases": Qwen2Config(**SIZES),
    "qwen3, with norms of heads": Qwen3Config(**SIZES, head_dim=48, attention_bias=True),
}
PREFIXES = (110, 0)  # committed positions by text
SEEN = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [1, 0, 1, 0, 1]]).bool()
POSITIONS = torch.tensor([0, 1, 1, 2, 2])


def int4_pass(config: PretrainedConfig) -> FusedPass:
    torch.manual_seed(3)
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    for value in model.parameters():
        value.data.normal_(0, 1.0 if value.ndim == 1 else 0.15)
    fused = FusedPass(model, (0, 2))
    assert fused.enable_int4(rounded_levels)
    return fused


def parts_of(fused: FusedPass, spare: int = 30, stale: float = 9.0) -> list[PassPart]:
    """Return a tree of one text and a row of another, with the value ``stale`` in the slots after them."""
    torch.manual_seed(4)
    parts = []
    for prefix, seen in zip(PREFIXES, (SEEN, None), strict=True):
        rows = 1 if seen is None else len(seen)
        cache = TreeCache(fused.base.config, prefix + rows + spare, fused.base.embed_tokens.weight)
        cache.slots.normal_()
        cache.slots[..., prefix + rows:, :] = stale
        cache.length = prefix
        parts.append(PassPart(PassRows(torch.randint(0, 64, (rows,)), prefix + POSITIONS[:rows], seen), cache))
    return parts


@torch.inference_mode()
def outputs_of(fused: FusedPass, parts: list[PassPart] | None = None) -> list[torch.Tensor]:
    """Return logits, taps and cache of a pass."""
    parts = parts or parts_of(fused)
    return [value for output, part in zip(fused(parts), parts, strict=True)
            for value in (*output, part.cache.slots[..., :part.end, :])]


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_compiled_layers_give_the_same_bits_as_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = int4_pass(CONFIGS[name])
    monkeypatch.setattr("engine.models.layers.Layer.run", None)  # torch's layers must not run
    compiled = outputs_of(fused)
    monkeypatch.undo()
    monkeypatch.setattr("engine.models.passes.MAX_COMPILED_ROWS", 0)
    assert all(torch.equal(*pair) for pair in zip(compiled, outputs_of(fused), strict=True))


NOT_COMPILED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no numba": lambda patch: patch.setitem(sys.modules, "numba", None),
    "a stored file that cannot be read": lambda patch: patch.setattr("numba.core.caching.pickle.load",
                                                                     Mock(side_effect=EOFError)),
    "NUMBA_DISABLE_JIT": lambda patch: patch.setattr("numba.core.config.DISABLE_JIT", 1),
}


@pytest.mark.parametrize("reason", NOT_COMPILED)
@torch.inference_mode()
def test_torch_computes_the_same_if_numba_cannot_compile(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own product replaces the compiled one too, with equal bits."""
    monkeypatch.setattr("engine.models.passes.compiled_product", lambda: None)
    expected = outputs_of(int4_pass(CONFIGS["llama"]))
    monkeypatch.undo()
    for name in ("compiled", "level_product"):
        monkeypatch.delitem(sys.modules, f"engine.models.{name}", raising=False)
    NOT_COMPILED[reason](monkeypatch)
    assert all(torch.equal(*pair) for pair in zip(outputs_of(int4_pass(CONFIGS["llama"])), expected, strict=True))


SCALED = """from ctypes import CFUNCTYPE, c_int64
from numba import cfunc
from engine.models.compiled import cached_compile, compiled

@compiled('i8(i8)')
def scaled(number):
    return FACTOR * number
"""
AS_C_FUNCTION = SCALED.replace("compiled('i8(i8)')", "cached_compile(cfunc('i8(i8)', cache=True))") + (
    "scaled = CFUNCTYPE(c_int64, c_int64)((kept := scaled).address)\n")


@pytest.mark.parametrize("text", [SCALED, AS_C_FUNCTION])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("size", [0, 100])
def test_a_damaged_compilation_cache_is_rebuilt(ending: str, size: int, text: str, tmp_path: Path) -> None:
    source = tmp_path / "scaled.py"
    source.write_text(text)
    assert run_path(str(source), {"FACTOR": 2})["scaled"](21) == 42
    (stored,) = tmp_path.glob(f"__pycache__/*.{ending}")
    stored.write_bytes(damaged := stored.read_bytes()[:size])
    assert run_path(str(source), {"FACTOR": 2})["scaled"](21) == 42
    assert stored.read_bytes() != damaged


def test_a_change_of_an_included_file_compiles_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, other = tmp_path / "scaled.py", tmp_path / "factor.py"
    source.write_text(SCALED)
    monkeypatch.setattr(sys.modules["engine.models.compiled"], "SOURCES", (other,))
    for factor in (2, 3):
        other.write_text(f"FACTOR = {factor}")
        assert run_path(str(source), {"FACTOR": factor})["scaled"](21) == 21 * factor


def test_without_gnu_openmp_torch_computes_the_product(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys.modules["engine.models.compiled"], "GOMP_PARALLEL", None)
    assert compiled_product() is None and not caplog.records


@torch.inference_mode()
def test_compiled_layers_do_not_write_beyond_a_cache() -> None:
    fused = int4_pass(CONFIGS["llama"])
    with pytest.raises(IndexError, match="slots"):
        outputs_of(fused, parts_of(fused, spare=-1))


@torch.inference_mode()
def test_compiled_layers_do_not_read_beyond_the_rows() -> None:
    fused = int4_pass(CONFIGS["llama"])
    stale = parts_of(fused, stale=nan)
    assert all(torch.equal(*pair) for pair in zip(outputs_of(fused, stale), outputs_of(fused), strict=True))


@torch.inference_mode()
def test_any_number_of_threads_gives_the_same_bits_and_two_passes_run_at_once() -> None:
    fused, threads = int4_pass(CONFIGS["llama"]), torch.get_num_threads()
    passes = [parts_of(fused) for _ in range(60)]
    expected = outputs_of(fused)
    try:
        for count in range(1, 5):
            torch.set_num_threads(count)
            outputs = [outputs_of(fused)]
            with ThreadPoolExecutor(2) as callers:
                outputs += callers.map(lambda parts: outputs_of(fused, parts), passes[15 * count - 15:15 * count])
            assert all(torch.equal(*pair) for output in outputs for pair in zip(output, expected, strict=True))
    finally:
        torch.set_num_threads(threads)


def test_a_compiled_function_releases_the_interpreter_lock() -> None:
    states = torch.zeros(1000, 2048, dtype=torch.bfloat16)
    silu_table = torch.zeros(1 << 16, dtype=torch.bfloat16)
    begun, ran = Event(), Event()

    def other() -> None:
        begun.wait()
        ran.set()

    thread, interval = Thread(target=other), sys.getswitchinterval()
    thread.start()
    sys.setswitchinterval(60)  # the other thread runs only if this one releases the lock
    try:
        begun.set()
        for _ in range(500):
            silu_and_mul(states.data_ptr(), silu_table.data_ptr(), states.data_ptr(), 1000, 1024)
            if ran.is_set():
                break
        assert ran.is_set()
    finally:
        sys.setswitchinterval(interval)
        thread.join()
