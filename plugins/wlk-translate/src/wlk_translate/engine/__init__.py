"""Translate committed tokens clause by clause, whatever engine translates a clause."""
