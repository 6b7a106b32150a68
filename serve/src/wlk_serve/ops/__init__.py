"""Metrics, and the sessions that run."""
