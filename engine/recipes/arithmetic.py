"""The dtype that a training machine multiplies large matrices fastest in.

On a CPU with bfloat16 tiles (AMX) that is bfloat16, by 5 to 8 times. Without them it is float32: 150 GFLOP/s a core
instead of 86 where there are bfloat16 dot products (AVX-512), and far more where there are none. Figures: ``LOG.md``.
"""

from __future__ import annotations

import torch


def fast_dtype(device: str | torch.device = "cpu") -> torch.dtype:
    """bfloat16 on a GPU or a CPU with tiles for it, float32 otherwise."""
    tiled = torch.device(device).type != "cpu" or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if tiled else torch.float32


def fast_products(device: str | torch.device = "cpu") -> torch.autocast:
    """Compute matrix products inside in that dtype."""
    dtype = fast_dtype(device)
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=dtype == torch.bfloat16)
