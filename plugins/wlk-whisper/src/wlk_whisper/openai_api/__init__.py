"""Whisper at an OpenAI-compatible transcription server."""
