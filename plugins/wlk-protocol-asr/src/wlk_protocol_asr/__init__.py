"""Clients of WhisperLiveKit at wlk-serve."""
