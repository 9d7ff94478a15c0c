"""The target: its forward passes over prompts and trees, KV cache, layers, masks, sampling and self-test."""
