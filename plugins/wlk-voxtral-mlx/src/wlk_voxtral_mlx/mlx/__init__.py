"""Run Voxtral Realtime on MLX."""
