"""A round as tensor code of fixed shapes: nothing between drafting and acceptance waits for the host.

Every step of ``decode.py`` once more, on the device and without a shape that depends on what was drafted: unused
places are padding that is hidden from attention. What a step does is defined by its numpy counterpart, which it
equals node for node, in order. The same code runs eagerly on any device; on a CUDA device ``graphs.py`` captures it.
"""
