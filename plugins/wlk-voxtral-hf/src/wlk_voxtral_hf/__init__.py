"""Voxtral Realtime on transformers as a streaming backend for wlk-core."""
