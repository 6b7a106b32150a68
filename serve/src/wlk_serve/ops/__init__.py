"""Metrics and running sessions."""
