"""Streams of sherpa-onnx and their words."""
