"""Run Voxtral Realtime on torch, with the modules of transformers."""
