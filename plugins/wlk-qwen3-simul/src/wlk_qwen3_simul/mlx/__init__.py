"""Run Qwen3-ASR on MLX: a Network built from the modules of mlx-qwen3-asr."""
