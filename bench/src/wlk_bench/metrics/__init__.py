"""Metrics: pure functions of an event log and its reference, one concept per file."""
