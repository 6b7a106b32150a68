"""Whisper on MLX: the modules of mlx-whisper, called layer by layer."""
