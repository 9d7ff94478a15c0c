"""What a run runs on, in words: for headers, logs and model cards."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch


def hardware(device: torch.device) -> str:
    """For example ``NVIDIA H200`` or ``AMD EPYC, 2 cores``."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
