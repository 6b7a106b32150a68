"""Detect the end of a turn from the sound of its last seconds."""
