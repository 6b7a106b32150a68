"""OpenAI's REST requests, which transcribe uploaded recordings."""
