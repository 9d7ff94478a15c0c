"""The target: its pass over prompts and trees, KV cache, layers, masks, sampling, several GPUs, self-test."""
