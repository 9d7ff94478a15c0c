"""Other engines that run as OpenAI-compatible servers: they are asked like any rig, and shown by what they report.

Torch-free. A kind of server is an entry of ``KINDS`` in ``kinds.py``.
"""
