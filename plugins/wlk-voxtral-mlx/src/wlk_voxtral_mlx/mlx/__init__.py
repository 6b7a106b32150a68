"""Voxtral Realtime on MLX."""
