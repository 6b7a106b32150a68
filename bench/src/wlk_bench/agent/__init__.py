"""Measure how soon a server has the final text after a person stops speaking."""
