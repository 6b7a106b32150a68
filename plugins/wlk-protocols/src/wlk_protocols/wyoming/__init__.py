"""Serve Home Assistant and other clients of the Wyoming protocol from wlk-serve."""
