"""Chat models at any OpenAI-compatible endpoint."""
