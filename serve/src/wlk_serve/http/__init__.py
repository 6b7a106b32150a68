"""Admission of clients, and the server that listens."""
