"""The demo rig, loaded once for all tests of a process."""

from dataclasses import replace
from functools import lru_cache

from engine.requests.admission import Admission
from engine.serving.rig import Rig
from engine.serving.rigs import load_rig


@lru_cache(maxsize=2)
def demo_rig(dtype: str = "float32") -> Rig:
    return load_rig("demo", dtype)


def demo_live(dtype: str = "float32", concurrent: bool = False) -> Rig:
    """Return the demo rig with nothing measured or learned yet, over the same weights."""
    return replace(demo_rig(dtype), concurrent=concurrent, admission=Admission())
