"""NVIDIA's streaming Nemotron ASR on transformers, as a backend for wlk-core."""
