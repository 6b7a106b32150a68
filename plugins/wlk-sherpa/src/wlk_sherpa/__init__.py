"""The streaming models of sherpa-onnx as a backend for wlk-core."""
