"""NVIDIA's Nemotron streaming speech recognition on transformers as a backend for wlk-core."""
