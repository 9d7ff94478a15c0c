"""Records the trees that SGLang verifies. It is a plugin: SGLang loads it by its entry point and calls ``register``.

``CANOPY_TRACES`` names the folder for the files (without it nothing is recorded), ``CANOPY_EVERY=10`` records every
tenth verification pass, ``CANOPY_TOKENIZER`` names the tokenizer that gives the tokens' texts.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from canopy_sglang.passes import VerifyPasses

TARGET = "sglang.srt.speculative.eagle_utils.verify_tree_greedy_func"

log = logging.getLogger("canopy.sglang")


def register() -> None:
    """Wrap SGLang's greedy verification; without a folder for the files, leave SGLang as it is."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType  # noqa: PLC0415 - not there without SGLang

    folder = os.environ.get("CANOPY_TRACES", "")
    if not folder:
        log.warning("CANOPY_TRACES names no folder, so no tree is recorded.")
        return
    passes = VerifyPasses(folder, int(os.environ.get("CANOPY_EVERY", "1")), _token_text())
    HookRegistry.register(TARGET, passes.around, HookType.AROUND)


def _token_text() -> Any:
    """The tokenizer that the environment names, which gives the tokens' texts; empty without one, for which the page
    shows ids."""
    name = os.environ.get("CANOPY_TOKENIZER", "")
    if not name:
        return {}
    from transformers import AutoTokenizer  # noqa: PLC0415 - where it is asked for: it takes seconds

    return AutoTokenizer.from_pretrained(name)
