"""Whisper as streaming backends for wlk-core."""
