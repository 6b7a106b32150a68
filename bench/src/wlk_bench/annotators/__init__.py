"""Measures of annotators: who speaks, when a turn ends, and translations."""
