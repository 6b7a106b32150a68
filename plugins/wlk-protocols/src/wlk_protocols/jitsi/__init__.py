"""Serve the transcription of Jitsi meetings by Jigasi from wlk-serve."""
