"""Decode Qwen3-ASR streams on any Network, without importing a framework."""
