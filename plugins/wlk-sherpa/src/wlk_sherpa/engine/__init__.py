"""Run streams of sherpa-onnx, and assemble their words."""
