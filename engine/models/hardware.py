"""The name of the hardware that a run uses: for headers, logs and model cards."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch
from transformers import PreTrainedModel


def hardware(device: torch.device, gpus: int = 1) -> str:
    """The device's name, for example ``NVIDIA H200``, ``2 × NVIDIA H200`` or ``AMD EPYC, 2 cores``."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return f"{gpus} × {name}" if gpus > 1 else name
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def gpus_of(model: PreTrainedModel) -> int:
    """How many devices a model is spread over."""
    return len(set(getattr(model, "hf_device_map", {"": 0}).values()))
