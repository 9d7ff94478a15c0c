"""The demo rig, loaded once for all tests of a process."""

from functools import lru_cache

from engine.serving.live import LiveRig
from engine.serving.rigs import Rig, load_rig


@lru_cache(maxsize=2)
def demo_rig(dtype: str = "float32") -> Rig:
    return load_rig("demo", dtype)


def demo_live(dtype: str = "float32") -> LiveRig:
    return LiveRig(demo_rig(dtype))
