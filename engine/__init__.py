"""Decoding with draft trees, and everything that measures it.

    from engine import open_rig

    rig = open_rig("smollm2")
    answer = rig.generate("What is a draft tree?", method="ddtree", budget=16)
    for round_ in answer:
        print(len(round_.tree), "rows verified,", len(round_.acceptance.keep), "kept")
    print(answer.text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.serving.rig import Rig


def open_rig(name: str, dtype: str = "auto") -> Rig:
    """Return the rig of that name (``engine/requests/rig_names.py``), ready to answer; RigError says what is missing or
    does not fit. What is not on this machine is downloaded."""
    from engine.serving.rigs import load_rig  # noqa: PLC0415  # torch is loaded with the first rig, not before
    return load_rig(name, dtype)
