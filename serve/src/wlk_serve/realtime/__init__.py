"""OpenAI Realtime transcription: the protocol without I/O, its configuration and its WebSocket."""
