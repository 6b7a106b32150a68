"""Loaded models: what clients may know of them, and the streams that they open."""
