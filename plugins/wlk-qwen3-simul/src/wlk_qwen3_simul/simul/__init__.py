"""Qwen3-ASR made simultaneous, on whatever framework runs its layers."""
