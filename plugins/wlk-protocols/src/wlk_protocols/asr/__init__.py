"""Serve clients of WhisperLiveKit from wlk-serve."""
