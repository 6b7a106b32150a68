"""OpenAI's audio endpoints, which transcribe uploaded recordings."""
