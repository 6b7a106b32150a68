"""Whisper at an OpenAI-compatible transcription endpoint."""
