"""Serve any backend to unmodified clients of OpenAI's audio API."""
