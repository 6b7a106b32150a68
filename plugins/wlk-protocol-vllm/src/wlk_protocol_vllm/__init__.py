"""Clients of vLLM's realtime endpoint at wlk-serve."""
