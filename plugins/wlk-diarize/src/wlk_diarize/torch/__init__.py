"""NVIDIA's Nemotron 3 Diarization, a streaming Sortformer, on transformers."""
