"""PARKED: rounds as CUDA graphs. Nothing in this room has run on a GPU yet; only CANOPY_CUDA_GRAPHS=1 switches it on.

A round as tensor code of fixed shapes, in which nothing between drafting and acceptance waits for the host. It repeats
every step of ``decoding/loop.py`` on the device; no shape depends on what was drafted, and unused rows are padding that
attention does not see. Each step is defined by its numpy counterpart and equals it node for node, in order. The same
code runs eagerly on any device and is tested that way; on a CUDA device ``graphs.py`` captures it. ``engine/README.md``
lists what to run on a GPU before this may become the default there.
"""
