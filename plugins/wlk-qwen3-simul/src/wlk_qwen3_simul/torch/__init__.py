"""Run Qwen3-ASR on torch: a Network built from the modules of transformers."""
