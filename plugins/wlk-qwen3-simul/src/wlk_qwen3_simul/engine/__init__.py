"""Decoding of Qwen3-ASR streams without a framework: everything that runs on a Network."""
