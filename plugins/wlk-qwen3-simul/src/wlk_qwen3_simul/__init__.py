"""Qwen3-ASR as streaming backends for wlk-core."""
