"""Measure how many sessions one machine keeps in real time."""
