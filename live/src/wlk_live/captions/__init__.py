"""Captions: timed text in lines that people can read."""
