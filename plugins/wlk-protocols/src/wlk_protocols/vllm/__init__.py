"""Serve clients of vLLM's realtime endpoint from wlk-serve."""
