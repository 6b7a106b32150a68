"""Whisper's decoding over any framework: what runs the layers is a `Network`, the rest is here."""
