"""Whisper backends for wlk-core on CTranslate2, torch, MLX and OpenAI-compatible servers."""
