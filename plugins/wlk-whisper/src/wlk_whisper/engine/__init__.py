"""Decoding of Whisper without a framework: a Network runs the layers."""
