"""PARKED: rounds as CUDA graphs. No GPU has run a line of this room; it is entered only with CANOPY_CUDA_GRAPHS=1.

A round as tensor code of fixed shapes, in which nothing between drafting and acceptance waits for the host: every step
of ``decoding/loop.py`` once more, on the device and without a shape that depends on what was drafted; unused places are
padding that is hidden from attention. What a step does is defined by its numpy counterpart, which it equals node for
node, in order. The same code runs eagerly on any device, and is tested so; on a CUDA device ``graphs.py`` captures it.
What to run on a GPU first, before this may be the default there, stands in ``engine/README.md``.
"""
