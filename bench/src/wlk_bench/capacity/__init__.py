"""Measure how many sessions one machine sustains in real time."""
