"""Whisper on torch: the modules of transformers, called layer by layer."""
