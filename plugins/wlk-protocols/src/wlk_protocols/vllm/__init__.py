"""Serve clients of vLLM's realtime API from wlk-serve."""
