"""Serve clients of Deepgram from wlk-serve."""
