"""Limits, metrics, and the sessions that run."""
