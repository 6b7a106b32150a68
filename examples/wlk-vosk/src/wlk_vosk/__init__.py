"""Vosk as a backend of wlk-core: Kaldi models that stream natively."""
