"""Qwen3-ASR on torch: a Network of the modules of transformers."""
