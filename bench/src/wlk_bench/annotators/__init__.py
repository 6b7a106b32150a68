"""Metrics of annotators: who speaks, when a turn ends, and how good a translation is."""
