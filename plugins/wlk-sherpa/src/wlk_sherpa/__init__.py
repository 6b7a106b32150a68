"""Run the streaming models of sherpa-onnx as a backend of wlk-core."""
