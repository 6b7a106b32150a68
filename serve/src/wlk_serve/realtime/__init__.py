"""OpenAI Realtime transcription: the protocol without I/O, its session and its WebSocket."""
