"""Diarize streams with the outputs of networks, whatever framework runs them."""
