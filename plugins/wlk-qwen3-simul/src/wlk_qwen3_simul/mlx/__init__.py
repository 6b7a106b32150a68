"""Qwen3-ASR on MLX: a Network of the modules of mlx-qwen3-asr."""
