"""Voxtral Realtime on torch, with the model of transformers."""
