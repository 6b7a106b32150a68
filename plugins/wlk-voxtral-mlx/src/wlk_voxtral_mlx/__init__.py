"""Voxtral Realtime on MLX as a streaming backend for wlk-core."""
