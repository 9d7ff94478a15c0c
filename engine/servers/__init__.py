"""Other engines that run as OpenAI-compatible servers: they are asked like any rig, and shown by what they report.

A kind of server is a file here with a ``ServerKind`` of the same name, and its name in the line below. Torch-free.
"""

from engine.registry import Table
from engine.servers.kind import ServerKind

KINDS: Table[ServerKind] = Table("engine.servers", "vllm", "sglang", "llama_cpp")
