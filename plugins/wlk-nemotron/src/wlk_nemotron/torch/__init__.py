"""Run Nemotron ASR on torch, with the modules of transformers."""
