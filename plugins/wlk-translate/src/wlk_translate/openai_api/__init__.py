"""Chat models on any OpenAI-compatible server."""
