"""Clients of Deepgram at wlk-serve."""
